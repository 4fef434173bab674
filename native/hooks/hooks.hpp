// Functions of libc and of runtimes that we stand in front of, and the real ones behind them.
#pragma once
#include <dlfcn.h>
#include <atomic>

namespace aiflame::hooks {

// Finds every real function and registers for fork and exit. From the collector's constructor, once.
void resolve() noexcept;

// False in a vfork child (or one of a raw clone): its memory is its parent's, or nobody prepared it for us.
bool own_process() noexcept;
// From here on own_process() is true, and asks the kernel nothing: nothing is recorded that a child could disturb.
void stay_in_process() noexcept;

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

// Of each file with hooks.
void resolve_signals() noexcept;
void resolve_process() noexcept;
void resolve_exec() noexcept;
void resolve_threads() noexcept;
void resolve_dlclose() noexcept;
void resolve_sandbox() noexcept;

}  // namespace aiflame::hooks

#define AIFLAME_EXPORT extern "C" __attribute__((visibility("default")))
