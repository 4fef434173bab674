// Which specialization of a Triton kernel a CUfunction is.
#pragma once
#include <cstdint>
#include <string_view>

namespace aiflame::kernel_variants {

// A row of `kernel_variants`; a function of 0 is not known yet. The row, 0 when nothing is recorded.
uint32_t add(uint64_t function, std::string_view name, std::string_view readable, std::string_view details) noexcept;

// The row for a function, 0: it is none.
uint32_t of(uint64_t function) noexcept;

}  // namespace aiflame::kernel_variants
