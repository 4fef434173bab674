// The places in the interpreter's memory that we read: one table of offsets for each minor version of CPython.
#pragma once
#include "aiflame_schema.hpp"

namespace aiflame::python {

using Chain = schema::PythonChain;
using Layout = schema::PythonLayout;

inline Chain chain_of(const Layout& layout) noexcept { return static_cast<Chain>(layout.chain); }

// The layout of `version` (PY_VERSION_HEX >> 16); from 3.13 on it comes from the debug offsets at the start of `runtime`, which is
// _PyRuntime. False, and the reason in one line, for an interpreter that we cannot read.
bool layout_of(uint32_t version, const uint64_t* runtime, Layout* out, const char** reason) noexcept;

}  // namespace aiflame::python
