// Libraries that were bound before we came, in a program that records itself: their table entries for functions are pointed at ours.
#pragma once

namespace aiflame::hooks {

// In every library of the process, entries for functions whose names begin so; `ours` gives the address to call instead, or nullptr.
void lead_callers(const char* beginning, void* (*ours)(const char* name) noexcept) noexcept;

// The same for pointers to such functions in a library's data, tables of virtual functions above all; `real` is the present pointer.
void lead_pointers(const char* beginning, void* (*ours)(const char* name, void* real) noexcept) noexcept;

}  // namespace aiflame::hooks
