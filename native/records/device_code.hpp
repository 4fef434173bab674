// Device code that a program loads → `cubins`, and a file for each: its own file may be gone later, or the program may have compiled it at run time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace aiflame::device_code {

// Of code for which its driver has none; never 0.
uint64_t checksum(const void* bytes, size_t size) noexcept;

// Keeps a file under its checksum, once in a profile, and writes its row, once in a recording. `lost`: the note if it cannot be kept.
void keep(uint64_t crc, const void* bytes, size_t size, std::string_view lost) noexcept;

// A new recording has empty tables.
void forget_rows() noexcept;

}  // namespace aiflame::device_code
