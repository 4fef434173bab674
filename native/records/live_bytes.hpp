// The bytes of memory that are recorded and live now: the host's by its samples, and torch's pools by their own counts. Approximate where a recording
// began in the middle, or threads change it at once: it serves to see that memory grows.
#pragma once
#include <cstdint>

namespace aiflame::live_bytes {

// Bytes of the host's memory; negative: they were freed.
void add(int64_t bytes) noexcept;
// Bytes of torch's pool on a device now.
void set(int device, uint64_t bytes) noexcept;
uint64_t now() noexcept;
void forget() noexcept;

}  // namespace aiflame::live_bytes
