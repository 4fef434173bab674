// In a program that records itself, libraries were bound before our library was loaded: makes their table entries point to our functions.
#pragma once

namespace aiflame::hooks {

// In every library of the process, replaces the entries of functions whose names start with `beginning`: `ours` gives the address to call instead,
// or nullptr to keep the entry.
void lead_callers(const char* beginning, void* (*ours)(const char* name) noexcept) noexcept;

// The same for pointers to such functions in a library's data, mostly tables of virtual functions; `real` is the present pointer.
void lead_pointers(const char* beginning, void* (*ours)(const char* name, void* real) noexcept) noexcept;

}  // namespace aiflame::hooks
