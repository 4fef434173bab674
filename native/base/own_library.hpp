// Where the dynamic linker keeps this library among those of the process.
#pragma once
#include <link.h>

namespace aiflame {

// Not in a handler. nullptr where there is no dynamic linker.
const link_map* own_library() noexcept;

}  // namespace aiflame
