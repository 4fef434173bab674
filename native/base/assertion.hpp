// What must hold, checked in debug builds (CMAKE_BUILD_TYPE=Debug) and with AIFLAME_ASSERTIONS: there a process in which it does not ends at
// once and says where. Releases check nothing, and evaluate nothing.
#pragma once

#ifdef AIFLAME_ASSERTIONS

#include "base/sys.hpp"
#include "base/text.hpp"

#include <csignal>
#include <cstdint>

namespace aiflame {

// FILE:LINE: CONDITION on stderr, and SIGABRT, whatever handler or thread this is: system calls alone, and nothing of the thread's. All three
// texts are the compiler's, and none is longer than a line.
[[noreturn]] [[gnu::noinline]] [[gnu::cold]] inline void fail_assertion(const char* file, uint32_t line, const char* condition) noexcept {
  using text::put;
  char message[1024];
  char* end = put(put(put(put(put(put(message, "aiflame: "), file), ":"), line), ": does not hold: "), condition);
  *end++ = '\n';
  sys::call(SYS_write, 2, reinterpret_cast<long>(message), end - message);
  // By the default action, which no handler of the program's stands before.
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
