// Calls that a signal interrupts for good (Linux restarts them for no handler, see signal(7)): our ticks must not show in them.
//
// With wall-clock ticks on, threads are interrupted while they wait. Each wrapper calls the real function again, for the rest of its time,
// when nothing but our ticks interrupted it. Without wall-clock ticks it is a jump to the real function.
//
//   sleeps   nanosleep, clock_nanosleep, usleep, sleep, thrd_sleep
//   events   poll, ppoll (and their _chk forms), select, pselect, epoll_wait, epoll_pwait, epoll_pwait2
//   locks    sem_timedwait, sem_clockwait, semop, semtimedop, msgrcv, msgsnd
//   signals  pause, sigsuspend, sigwait, sigwaitinfo, sigtimedwait
//   sockets  accept, accept4, connect, recv, recvfrom, recvmsg, send, sendto, sendmsg: interrupted only where a timeout is set
//
// Not wrapped: io_getevents, aio_suspend, recvmmsg, sendmmsg, and system calls made without libc.
#pragma once
#include "base/clock.hpp"
#include "sampler/signals.hpp"

#include <cerrno>
#include <csignal>
#include <ctime>

namespace aiflame::hooks {

// Counts the signals that arrived in this thread since the call began.
class Watch {
 public:
  // True if the call was interrupted, and only by our ticks.
  bool only_ticks(int error) noexcept {
    signals::Seen now = signals::seen();
    bool again = error == EINTR && now.others == since_.others && now.ticks != since_.ticks;
    since_ = now;
    return again;
  }

 private:
  signals::Seen since_ = signals::seen();
};

class Deadline {
 public:
  static Deadline never() noexcept { return Deadline(~0ull); }
  static Deadline in(uint64_t nanoseconds) noexcept {
    uint64_t now = now_ns();
    return Deadline(now + nanoseconds < now ? ~0ull : now + nanoseconds);
  }
  static Deadline in(const timespec* time) noexcept {
    return time ? in(static_cast<uint64_t>(time->tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time->tv_nsec)) : never();
  }

  bool forever() const noexcept { return end_ == ~0ull; }
  uint64_t left() const noexcept {
    uint64_t now = now_ns();
    return now < end_ ? end_ - now : 0;
  }
  timespec left_time() const noexcept {
    uint64_t nanoseconds = left();
    return {static_cast<time_t>(nanoseconds / 1'000'000'000u), static_cast<long>(nanoseconds % 1'000'000'000u)};
  }

 private:
  explicit Deadline(uint64_t end) noexcept : end_(end) {}
  uint64_t end_;
};

inline bool valid(const timespec* time) noexcept { return !time || (time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < 1'000'000'000); }

// Calls `first`, then `again` for as long as only our ticks interrupt it.
template <class First, class Again>
auto undisturbed(First first, Again again) {
  Watch watch;
  auto result = first();
  while (result == -1 && watch.only_ticks(errno)) result = again();
  return result;
}
template <class Call>
auto undisturbed(Call call) {
  return undisturbed(call, call);
}

void resolve_interruptible() noexcept;
void resolve_interruptible_ipc() noexcept;

}  // namespace aiflame::hooks
