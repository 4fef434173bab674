// Device code of Intel's GPUs, as Level Zero and OpenCL give it to debuggers: an ELF file whose sections of code have the addresses at which they
// lie in the GPU's memory.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::intel_code {

struct Span {
  uint64_t address, bytes;
};

// From the lowest address of the code in an ELF file to its end; {}: it has none.
Span span(const uint8_t* elf, size_t size) noexcept;

// A load of code, whose row is valid in one recording.
struct Load {
  uint32_t row, era;  // row 0: none
  uint64_t crc;
};

// Keeps the code and writes its load. `device`: a text; `time_ns`: when the call that loaded it returned.
Load loaded(uint32_t device, uint64_t time_ns, const uint8_t* elf, size_t size) noexcept;
void unloaded(const Load& load, uint64_t time_ns) noexcept;

}  // namespace aiflame::intel_code
