#include "base/own_library.hpp"

#include <dlfcn.h>

namespace aiflame {

const link_map* own_library() noexcept {
  // Called once: for each answer, the dynamic linker goes through all symbols of the library.
  static const link_map* own = [] {
    Dl_info info;
    link_map* map = nullptr;
    bool found = dladdr1(reinterpret_cast<void*>(&own_library), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
    return found ? map : nullptr;
  }();
  return own;
}

}  // namespace aiflame
