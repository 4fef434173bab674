// Compares the frames that we read with those of the interpreter's own API.
#pragma once
#include "unwind/python_api.hpp"
#include "unwind/python_layout.hpp"

namespace aiflame::python {

enum class Verdict : uint8_t { NOTHING_RUNS, EQUAL, DIFFERENT };

// Compares the calling thread's frames, one by one, with the C API's: code object, instruction, and our copies of each code object's data. Needs
// the GIL.
Verdict self_test(const Api& api, const Layout& layout) noexcept;

}  // namespace aiflame::python
