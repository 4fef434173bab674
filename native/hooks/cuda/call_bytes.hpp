// The number of bytes that a call of CUDA moves, sets or requests, from its parameters as CUPTI passes them.
#pragma once
#include <cstdint>
#include <string_view>

namespace aiflame::cuda::bytes {

// The number of a function, by CUPTI's name for it, which also determines the layout of its parameters; 0 if no bytes are known for the function.
uint8_t find(std::string_view name) noexcept;

// `succeeded`: the memory that its parameters point to may be read.
uint64_t asked_for(uint8_t number, const void* parameters, bool succeeded) noexcept;

}  // namespace aiflame::cuda::bytes
