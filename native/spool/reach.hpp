// How a process reaches its profile when paths no longer lead there: as another user, below another root folder, with other mounts.
//
// As long as a program makes no such change, we hold no descriptor. Right before one, we open three and keep them: of the control page, of the folder
// of all spools, and of this library. Child programs inherit them, and find their numbers in AIFLAME_DESCRIPTORS, so that they are recorded, too. A
// program may close them: we can still write to files that are mapped already.
#pragma once
#include <cstdint>

namespace aiflame::reach {

// Opens the descriptors, unless they are open already. `library`: the path of this library.
void keep(const char* library) noexcept;

// In a new program: takes the descriptors named by `variable` (the value of AIFLAME_DESCRIPTORS, or nullptr) that are still open, if they belong to
// the profile that it is to be recorded into: a recorded program may record others.
void inherit(const char* variable, const char* profile) noexcept;

// For `aiflame attach`. A program that sees other files than the recorder is sent five descriptors: of the control page, of the folder of all spools,
// of that for device code, of the Python that runs in programs, and of this library. `where` names them, each as in AIFLAME_DESCRIPTORS, and then the
// profile; for other programs it is the profile's path alone. Takes the descriptors, so that no program which this one starts inherits them. Returns
// the profile's path, or nullptr.
const char* receive(const char* where) noexcept;

// Closes the descriptors that were received.
void leave() noexcept;

// Where device code is kept, if the folder was received: its descriptor. Else -1, and a path leads there.
int device_code() noexcept;

// A path to the Python that runs in programs, if it was received; else nullptr.
const char* python_path() noexcept;

// True if the descriptors are or were open: paths may lead elsewhere now.
bool needed() noexcept;

// AIFLAME_DESCRIPTORS=… for a new program; nullptr if none is open any more.
const char* variable() noexcept;

// A path by which a new program finds this library under any root folder, as long as /proc is mounted; nullptr if there is none.
const char* library_path() noexcept;

// Opens the control page of a profile / a file below its folder of spools: by descriptor if one of that profile is held, else by path. Descriptors
// of another profile are closed. Returns a descriptor, or an error number below zero.
long open_control(const char* profile, int flags) noexcept;
long open_in_spool(const char* path, int flags) noexcept;
// Makes a folder below the folder of spools: 0, or an error number below zero.
long make_folder(const char* name) noexcept;

// Makes another user the owner of a folder of spools, or of a table in one. From here on, every user who may enter the profile's folder can make
// folders in the folder of all spools.
void give_folder(const char* name, uint32_t user) noexcept;
void give_file(const char* path, uint32_t user) noexcept;

}  // namespace aiflame::reach
