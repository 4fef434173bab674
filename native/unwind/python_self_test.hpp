// Is what we read what the interpreter itself says?
#pragma once
#include "unwind/python_api.hpp"
#include "unwind/python_layout.hpp"

namespace aiflame::python {

enum class Verdict : uint8_t { NOTHING_RUNS, EQUAL, DIFFERENT };

// Compares the calling thread's frames, one by one, with the C API's: code object, instruction, and what is copied of each code
// object. Needs the GIL.
Verdict self_test(const Api& api, const Layout& layout) noexcept;

}  // namespace aiflame::python
