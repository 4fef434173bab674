// The pointer in an object through which CPython calls it (the vectorcall protocol). Replaced by a pointer to our function, it shows us each call,
// and Python code sees no change.
#pragma once
#include "hooks/python/abi.hpp"

namespace aiflame::bridge {

// `count` has a flag in its highest bit; `names` is a tuple of the names of the last arguments, or nullptr.
using Call = Object (*)(Object function, const Object* arguments, size_t count, Object names);

// The only word of an object that has this value; 0: there are none, or several.
inline size_t word_with(const void* object, uint64_t bytes, uint64_t value) noexcept {
  size_t found = 0, places = 0;
  for (size_t at = 2; at < bytes / sizeof value; at++)
    if (static_cast<const uint64_t*>(object)[at] == value) found = at, places++;
  return places == 1 ? found : 0;
}

// How `function` is called now; nullptr: not through a pointer, or it cannot be queried.
inline Call call_of(Object function) noexcept { return py.vectorcall_of ? reinterpret_cast<Call>(py.vectorcall_of(function)) : nullptr; }

// From now on `function`, an object of `size` bytes that is called by `known`, is called by `ours`. False: nothing was changed, since its layout is
// unknown.
inline bool lead_calls(Object function, uint64_t size, Call known, Call ours) noexcept {
  size_t at = known ? word_with(function, size, reinterpret_cast<uint64_t>(known)) : 0;
  if (!at) return false;
  __atomic_store_n(static_cast<void**>(function) + at, reinterpret_cast<void*>(ours), __ATOMIC_RELEASE);
  return true;
}

}  // namespace aiflame::bridge
