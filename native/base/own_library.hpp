// The dynamic linker's entry for this library.
#pragma once
#include <link.h>

namespace aiflame {

// Not in a handler. nullptr if there is no dynamic linker.
const link_map* own_library() noexcept;

}  // namespace aiflame
