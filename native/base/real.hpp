// The real functions behind those that we stand in front of.
#pragma once
#include <dlfcn.h>
#include <atomic>

namespace aiflame {

// The next definition of a function after ours. Found at resolve(), or when called before (constructors of other libraries), or
// when its library came later.
template <class Function>
class Real {
 public:
  explicit constexpr Real(const char* name) noexcept : name_(name) {}

  Function* find() noexcept {
    Function* function = function_.load(std::memory_order_relaxed);
    if (function) [[likely]]
      return function;
    function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
    function_.store(function, std::memory_order_relaxed);
    return function;
  }

  template <class... Arguments>
  decltype(auto) operator()(Arguments... arguments) {
    return find()(arguments...);
  }

 private:
  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

template <class... Reals>
void find_all(Reals&... reals) noexcept {
  (reals.find(), ...);
}

}  // namespace aiflame
