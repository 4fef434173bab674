// torch's modules as rows of `layers`: told by the address of the object, which a walk reads from the frame of its call.
//
// An object may be gone and its address another's: a type of another address means another object, and Python of ours says which
// objects went (forget). Everything may be called from a signal handler but where it says otherwise.
#pragma once
#include "unwind/frames.hpp"
#include "unwind/python_layout.hpp"

#include <cstdint>
#include <string_view>

namespace aiflame::python::layers {

// Not for signal handlers; before any other.
void use(const Layout& layout) noexcept;

// The row of the object at `address`, written when it is first met; 0 when no object is there, or nothing is recorded any more.
uint32_t row_of(uint64_t address) noexcept;

// What the row of the object at `address` is read from: while that and the object's type are the same, so is the row. All 0: it has none.
Read word_of(uint64_t address) noexcept;

// A row of `layer_names`: a module with this name hangs in `root` (its own address for a root) at `path`.
uint32_t name(uint64_t address, uint64_t root, std::string_view path, std::string_view type) noexcept;

// The object is gone: what is met at its address next is another.
void forget(uint64_t address) noexcept;

// There are layers without a name, and it is time to ask for them (again): soon for new ones, ever more rarely for those that nobody
// could name.
bool names_are_due(uint64_t now) noexcept;
// They are asked for now.
void names_are_asked(uint64_t now) noexcept;

void forget_rows() noexcept;

}  // namespace aiflame::python::layers
