// Device code that a profile keeps, each once: a file `cubins/CRC.cubin` and a row of `cubins`.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::kept_code {

// A checksum of code for which its driver has none.
uint64_t checksum(const void* bytes, size_t size) noexcept;

// Keeps the code, unless this recording has it already. `failed`: the note if it cannot be kept.
void keep(uint64_t crc, const void* bytes, size_t size, const char* failed) noexcept;

void forget_rows() noexcept;

}  // namespace aiflame::kept_code
