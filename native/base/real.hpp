// The real functions behind those that we interpose.
#pragma once
#include "base/next_definition.hpp"

#include <dlfcn.h>
#include <algorithm>
#include <atomic>
#include <cstddef>

namespace aiflame {

// A name as a parameter of a template: a pointer to it in each object would make the dynamic linker write to the pages of all of them.
template <size_t kBytes>
struct FunctionName {
  consteval FunctionName(const char (&name)[kBytes]) noexcept { std::copy_n(name, kBytes, text); }
  char text[kBytes];
};

// The next definition of a function after ours. It is looked up at the first call if that takes no lock, otherwise in resolve(); or earlier (in
// constructors of other libraries), or again when its library is loaded later.
template <class Function, FunctionName kName>
class Real {
 public:
  Function* find() noexcept {
    Function* function = function_.load(std::memory_order_relaxed);
    if (function) [[likely]]
      return function;
    constexpr uint32_t kHash = next_definition::hash_of(kName.text);
    function = reinterpret_cast<Function*>(next_definition::find(kName.text, kHash));
    if (!function) function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, kName.text));
    function_.store(function, std::memory_order_relaxed);
    return function;
  }

  template <class... Arguments>
  decltype(auto) operator()(Arguments... arguments) {
    return find()(arguments...);
  }

 private:
  std::atomic<Function*> function_{nullptr};
};

// For functions that children of forks call and their parents do not: otherwise each child would look them up again.
template <class... Reals>
void find_now(Reals&... reals) noexcept {
  (reals.find(), ...);
}

// For calls from handlers, and from threads that another thread waits for while it loads a library.
template <class... Reals>
void find_all(Reals&... reals) noexcept {
  if (!next_definition::usable()) find_now(reals...);
}

}  // namespace aiflame
