// How many bytes a call of CUDA's moves, sets or asks for: by its parameters, as CUPTI hands them on.
#pragma once
#include <cstdint>
#include <string_view>

namespace aiflame::cuda::bytes {

// Number of a function by CUPTI's name for it, which also fixes the layout of its parameters; 0 when we know no bytes of the function.
uint8_t find(std::string_view name) noexcept;

// `succeeded`: the memory that its parameters point to may be read.
uint64_t asked_for(uint8_t number, const void* parameters, bool succeeded) noexcept;

}  // namespace aiflame::cuda::bytes
