// The life of a process: one record in a file that all processes of a recording share, PROFILE/spool/lives.table.
//
// A shell script starts thousands of processes of which nothing else is ever recorded: no tick meets them. Such a process makes no
// folder and no tables. Its record is written when recording begins in it, and completed in place at the end. Whoever records more gets a
// folder with its first row (spool::prepare_folder), and from then on everything is there; the record says no more than that it began.
#pragma once
#include <cstdint>
#include <string_view>

namespace aiflame::spool::life {

// The row that the main thread has in `threads`, also while that table is not there.
inline constexpr uint32_t kMainThread = 1;

// Before begin(): the command line as the dynamic linker gave it to us, which spares a look into /proc.
void set_command(int count, char** words) noexcept;

// After spool::open(). Looks up who this process is, and writes its record; where that cannot be, its rows.
void begin(uint64_t start_ns, uint32_t python, bool forked) noexcept;

// The record is all that there is of this process.
bool is_all() noexcept;

// Row kMainThread of `threads` is not for others.
bool has_main_thread() noexcept;

// True once: the thread is the main one, and its row was written with the process's. What else a thread has is rows of its own.
bool take_thread(uint32_t tid) noexcept;

// While the record is all: what would be a row of `thread_ends`, and of `process_ends`.
void end_thread(std::string_view name, uint64_t end_ns, uint64_t cpu_ns) noexcept;
void end(uint64_t end_ns, uint64_t cpu_ns) noexcept;
// The end was none, since an exec failed.
void reopen() noexcept;

// For spool::prepare_folder(): what the folder's tables begin with.
void write_rows() noexcept;

// Lets go of the files: another recording begins. The child of a fork goes on with its parent's.
void abandon() noexcept;
void leave_behind() noexcept;

// What another process has remembered under a key (spool/known_files); 0: nothing.
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
