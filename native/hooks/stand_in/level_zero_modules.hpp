// Modules of Level Zero: their code, and where it lies in the GPU's memory, for as long as it does.
#pragma once
#include "hooks/stand_in/level_zero_handles.hpp"

namespace aiflame::level_zero {

// The program has made a module. Without the lock, as the next.
void module_made(const Api& api, Handle context_device, Handle module, uint64_t time_ns) noexcept;
// It has linked it with others: its code may be another.
void module_linked(const Api& api, Handle module, uint64_t time_ns) noexcept;
// It is about to destroy it.
void module_goes(Handle module) noexcept;

// Writes the device's PCI address, once in a recording. With the lock held.
void write_address(const Api& api, Device& device) noexcept;

}  // namespace aiflame::level_zero
