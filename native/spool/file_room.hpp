// Disk blocks for files that grow while they are mapped.
#pragma once
#include <cstdint>

namespace aiflame::file_room {

// Allocates blocks for [start, start + bytes) of PROFILE/spool/PATH, which is open, so that a store into a mapping of it can never meet a full disk
// (SIGBUS). 0, or an error number below zero.
long allocate(const char* path, long fd, uint64_t start, uint64_t bytes) noexcept;

}  // namespace aiflame::file_room
