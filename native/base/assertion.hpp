// AIFLAME_ASSERT(condition): an invariant. Debug builds (CMAKE_BUILD_TYPE=Debug) and builds with AIFLAME_ASSERTIONS check it: a process in
// which it is false writes file, line and condition, and aborts. Releases do not evaluate it.
#pragma once

#ifdef AIFLAME_ASSERTIONS

#include "base/sys.hpp"
#include "base/text.hpp"

#include <csignal>
#include <cstdint>

namespace aiflame {

// Safe in any handler and any thread: it makes system calls and touches no thread-local memory. The texts come from the compiler and are
// short.
[[noreturn]] [[gnu::noinline]] [[gnu::cold]] inline void fail_assertion(const char* file, uint32_t line, const char* condition) noexcept {
  using text::put;
  char message[1024];
  char* end = put(put(put(put(put(put(message, "aiflame: "), file), ":"), line), ": does not hold: "), condition);
  *end++ = '\n';
  sys::call(SYS_write, 2, reinterpret_cast<long>(message), end - message);
  // With the default action, even where the program handles SIGABRT.
  struct {
    uint64_t handler, flags, restorer, mask;
  } action{};
  uint64_t none = 0;
  sys::call(SYS_rt_sigaction, SIGABRT, reinterpret_cast<long>(&action), 0, sizeof none);
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&none), 0, sizeof none);
  sys::call(SYS_tgkill, sys::process_id(), sys::thread_id(), SIGABRT);
  for (;;) sys::call(SYS_exit_group, 134);
}

}  // namespace aiflame

#define AIFLAME_ASSERT(...) ((__VA_ARGS__) ? static_cast<void>(0) : aiflame::fail_assertion(__FILE__, __LINE__, #__VA_ARGS__))

#else

#define AIFLAME_ASSERT(...) static_cast<void>(sizeof(bool(__VA_ARGS__)))

#endif
