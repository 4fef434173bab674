// Calls of torch's modules as Python of ours tells them, begin and end: rows of `layer_calls`.
#pragma once
#include <cstdint>

namespace aiflame::layer_calls {

// On the calling thread: the module at `address` is called / the call that began last is over.
void begin(uint64_t address) noexcept;
void end() noexcept;

}  // namespace aiflame::layer_calls
