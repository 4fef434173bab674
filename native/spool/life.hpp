// The start and end of a process: one record in a file that all processes of a recording share, PROFILE/spool/lives.table.
//
// A shell script starts thousands of processes that never record anything else: no tick reaches them. Such a process makes no folder and no tables.
// Its record is written when recording begins in it, and completed in place at the end. A process that records more gets a folder with its first row
// (spool::prepare_folder), and from then on uses only that; its record then only shows its start.
#pragma once
#include <cstdint>
#include <string_view>

namespace aiflame::spool::life {

// The main thread's row in `threads`, valid even before that table exists.
inline constexpr uint32_t kMainThread = 1;

// Called before begin(), with the command line from the dynamic linker, which saves reading /proc.
void set_command(int count, char** words) noexcept;

// Called after spool::open(). Determines the identity of this process and writes its record, or its rows if that fails.
void begin(uint64_t start_ns, uint32_t python, bool forked) noexcept;

// True if the process has only its record, and no folder.
bool is_all() noexcept;

// True if row kMainThread of `threads` is reserved.
bool has_main_thread() noexcept;

// True once, for the main thread, whose row was written with the process's. Other threads write their own rows.
bool take_thread(uint32_t tid) noexcept;

// While there is only the record: writes the data of a `thread_ends` and a `process_ends` row into it.
void end_thread(std::string_view name, uint64_t end_ns, uint64_t cpu_ns) noexcept;
void end(uint64_t end_ns, uint64_t cpu_ns) noexcept;
// Removes the end again, since an exec failed.
void reopen() noexcept;

// For spool::prepare_folder(): the first rows of the folder's tables.
void write_rows() noexcept;

// Closes the files, since another recording begins. The child of a fork keeps its parent's.
void abandon() noexcept;
void leave_behind() noexcept;

// The value that another process has stored under a key (spool/known_files); 0: none.
uint32_t recall(uint64_t key) noexcept;
void remember(uint64_t key, uint32_t value) noexcept;

// Around a fork, in the thread that makes it: the child finds a record reserved.
void before_fork() noexcept;
void after_fork_parent() noexcept;

bool covers(uint64_t address) noexcept;
bool overlaps(uint64_t address, uint64_t bytes) noexcept;
bool map_again(uint64_t address) noexcept;
void map_missing() noexcept;

}  // namespace aiflame::spool::life
