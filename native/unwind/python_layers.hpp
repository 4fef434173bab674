// torch's modules as rows of `layers`: identified by the address of the object, which a walk reads from the frame of its call.
//
// An object may be freed and its address reused: a type at another address means another object, and our Python code reports objects that were
// freed (forget). All functions may be called from a signal handler unless they say otherwise.
#pragma once
#include "unwind/frames.hpp"
#include "unwind/python_layout.hpp"

#include <cstdint>
#include <string_view>

namespace aiflame::python::layers {

// Not for signal handlers; before any other.
void use(const Layout& layout) noexcept;

// The row of the object at `address`, written at its first occurrence; 0 if there is no object, or recording has stopped.
uint32_t row_of(uint64_t address) noexcept;

// The data that determine the row of the object at `address`: while they and the object's type do not change, neither does the row. All 0: it has
// no row.
Read word_of(uint64_t address) noexcept;

// Writes a row of `layer_names`: a module with this name is at `path` in `root` (which is its own address for a root).
uint32_t name(uint64_t address, uint64_t root, std::string_view path, std::string_view type) noexcept;

// The object was freed: the next object at its address is another one.
void forget(uint64_t address) noexcept;

// True if there are layers without a name, and it is time to ask for names (again): soon for new ones, ever more rarely for those that nobody could
// name.
bool names_are_due(uint64_t now) noexcept;
// Call it when names are asked for.
void names_are_asked(uint64_t now) noexcept;

void forget_rows() noexcept;

}  // namespace aiflame::python::layers
