// The specialization of a Triton kernel for each CUfunction.
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>

namespace aiflame::kernel_variants {

// Adds a row of `kernel_variants`; function 0 is not known yet. Returns the row, 0 if nothing is recorded.
uint32_t add(uint64_t function, std::string_view name, std::string_view readable, std::string_view details) noexcept;

// The row for a function, 0: it is not a specialization. A function that was unloaded keeps its row until another one gets its address: readers
// compare the row's name with the kernel's.
uint32_t of(uint64_t function) noexcept;

// Forgets the rows of all functions: rows belong to a process, and to a recording.
void forget_rows() noexcept;

extern std::atomic<bool> known;
// False for most programs, in which no launch is looked up.
inline bool any() noexcept { return known.load(std::memory_order_relaxed); }

}  // namespace aiflame::kernel_variants
