#include "hooks/libc/interruptible_calls.hpp"

#include "hooks/libc/resolve.hpp"
#include "hooks/shared/exported.hpp"
#include "sampler/interposed_signals.hpp"
#include "sampler/loop_turns.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <threads.h>
#include <unistd.h>

namespace aiflame::hooks {

namespace {

Real<int(const timespec*, timespec*), "nanosleep"> real_nanosleep;
Real<int(clockid_t, int, const timespec*, timespec*), "clock_nanosleep"> real_clock_nanosleep;
Real<int(useconds_t), "usleep"> real_usleep;
Real<unsigned(unsigned), "sleep"> real_sleep;
Real<int(const timespec*, timespec*), "thrd_sleep"> real_thrd_sleep;
Real<int(pollfd*, nfds_t, int), "poll"> real_poll;
Real<int(pollfd*, nfds_t, const timespec*, const sigset_t*), "ppoll"> real_ppoll;
Real<int(pollfd*, nfds_t, int, size_t), "__poll_chk"> real_poll_chk;
Real<int(pollfd*, nfds_t, const timespec*, const sigset_t*, size_t), "__ppoll_chk"> real_ppoll_chk;
Real<int(int, fd_set*, fd_set*, fd_set*, timeval*), "select"> real_select;
Real<int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*), "pselect"> real_pselect;
Real<int(int, epoll_event*, int, int), "epoll_wait"> real_epoll_wait;
Real<int(int, epoll_event*, int, int, const sigset_t*), "epoll_pwait"> real_epoll_pwait;
Real<int(int, epoll_event*, int, const timespec*, const sigset_t*), "epoll_pwait2"> real_epoll_pwait2;

}  // namespace

void resolve_interruptible() noexcept {
  find_all(real_nanosleep, real_clock_nanosleep, real_usleep, real_sleep, real_thrd_sleep, real_poll, real_ppoll, real_poll_chk, real_ppoll_chk,
           real_select, real_pselect, real_epoll_wait, real_epoll_pwait, real_epoll_pwait2);
}

namespace {

// poll() and epoll_wait() count in milliseconds and never return early.
int milliseconds(const Deadline& deadline) noexcept { return deadline.forever() ? -1 : static_cast<int>((deadline.left() + 999'999) / 1'000'000); }
Deadline after_milliseconds(int timeout) noexcept {
  return timeout < 0 ? Deadline::never() : Deadline::in(static_cast<uint64_t>(timeout) * 1'000'000u);
}

// Sleeps `left` again and again; `call` takes (for how long, where the rest goes).
template <class Call>
int sleep_on(const timespec* time, timespec* rest, Call call) {
  Deadline deadline = Deadline::in(time);
  timespec left = *time, unused;
  Watch watch;
  for (;;) {
    int result = call(&left, rest ? rest : &unused);
    if (result == 0 || !watch.only_ticks(result == -1 ? errno : result)) return result;
    left = deadline.left_time();
  }
}

}  // namespace

}  // namespace aiflame::hooks

using namespace aiflame;
using namespace aiflame::hooks;

AIFLAME_EXPORT int nanosleep(const timespec* time, timespec* rest) {
  if (!signals::counting() || !time || !valid(time)) return real_nanosleep(time, rest);
  return sleep_on(time, rest, [](const timespec* left, timespec* unslept) { return real_nanosleep(left, unslept); });
}

AIFLAME_EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  if (!signals::counting() || !time || !valid(time)) return real_clock_nanosleep(clock, flags, time, rest);
  if (!(flags & TIMER_ABSTIME) && (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME))
    return sleep_on(time, rest, [=](const timespec* left, timespec* unslept) { return real_clock_nanosleep(clock, flags, left, unslept); });
  // An absolute time stays; for a relative one the kernel returns the remaining time.
  timespec left = *time, unslept = *time;
  Watch watch;
  for (;;) {
    int error = real_clock_nanosleep(clock, flags, &left, &unslept);
    if (rest && error == EINTR && !(flags & TIMER_ABSTIME)) *rest = unslept;
    if (!watch.only_ticks(error)) return error;
    if (!(flags & TIMER_ABSTIME)) left = unslept;
  }
}

AIFLAME_EXPORT int usleep(useconds_t microseconds) {
  if (!signals::counting()) return real_usleep(microseconds);
  timespec time{static_cast<time_t>(microseconds / 1'000'000u), static_cast<long>(microseconds % 1'000'000u * 1000u)};
  return nanosleep(&time, nullptr);
}

AIFLAME_EXPORT unsigned sleep(unsigned seconds) {
  if (!signals::counting()) return real_sleep(seconds);
  int error = errno;
  timespec time{static_cast<time_t>(seconds), 0}, rest{};
  if (nanosleep(&time, &rest) == 0) {
    errno = error;
    return 0;
  }
  return static_cast<unsigned>(rest.tv_sec) + (rest.tv_nsec >= 500'000'000);
}

AIFLAME_EXPORT int thrd_sleep(const timespec* time, timespec* rest) {
  if (!signals::counting() || !time || !valid(time)) return real_thrd_sleep(time, rest);
  int result = clock_nanosleep(CLOCK_REALTIME, 0, time, rest);
  return result == 0 ? 0 : result == EINTR ? -1 : -2;
}

AIFLAME_EXPORT int poll(pollfd* fds, nfds_t count, int timeout) {
  if (!signals::counting()) return real_poll(fds, count, timeout);
  Deadline deadline = after_milliseconds(timeout);
  return undisturbed([&] { return real_poll(fds, count, timeout); }, [&] { return real_poll(fds, count, milliseconds(deadline)); });
}

// The _chk forms only check the array's size first.
AIFLAME_EXPORT int __poll_chk(pollfd* fds, nfds_t count, int timeout, size_t bytes) {
  if (!signals::counting() || bytes / sizeof *fds < count) return real_poll_chk(fds, count, timeout, bytes);
  return poll(fds, count, timeout);
}

AIFLAME_EXPORT int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  if (!signals::counting() || !valid(timeout)) return real_ppoll(fds, count, timeout, mask);
  Deadline deadline = Deadline::in(timeout);
  return undisturbed([&] { return real_ppoll(fds, count, timeout, mask); },
                     [&] {
                       timespec left = deadline.left_time();
                       return real_ppoll(fds, count, timeout ? &left : nullptr, mask);
                     });
}

AIFLAME_EXPORT int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask, size_t bytes) {
  if (!signals::counting() || bytes / sizeof *fds < count) return real_ppoll_chk(fds, count, timeout, mask, bytes);
  return ppoll(fds, count, timeout, mask);
}

// The kernel leaves the remaining time in `timeout`, also when interrupted, and the sets as they were.
AIFLAME_EXPORT int select(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
  if (!signals::counting()) return real_select(count, read, write, except, timeout);
  return undisturbed([&] { return real_select(count, read, write, except, timeout); });
}

AIFLAME_EXPORT int pselect(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout, const sigset_t* mask) {
  if (!signals::counting() || !valid(timeout)) return real_pselect(count, read, write, except, timeout, mask);
  Deadline deadline = Deadline::in(timeout);
  return undisturbed([&] { return real_pselect(count, read, write, except, timeout, mask); },
                     [&] {
                       timespec left = deadline.left_time();
                       return real_pselect(count, read, write, except, timeout ? &left : nullptr, mask);
                     });
}

AIFLAME_EXPORT int epoll_wait(int fd, epoll_event* events, int room, int timeout) {
  if (!signals::counting()) return loop_turns::wait(timeout == 0, [&] { return real_epoll_wait(fd, events, room, timeout); });
  Deadline deadline = after_milliseconds(timeout);
  return loop_turns::wait(timeout == 0, [&] {
    return undisturbed([&] { return real_epoll_wait(fd, events, room, timeout); },
                       [&] { return real_epoll_wait(fd, events, room, milliseconds(deadline)); });
  });
}

AIFLAME_EXPORT int epoll_pwait(int fd, epoll_event* events, int room, int timeout, const sigset_t* mask) {
  if (!signals::counting()) return loop_turns::wait(timeout == 0, [&] { return real_epoll_pwait(fd, events, room, timeout, mask); });
  Deadline deadline = after_milliseconds(timeout);
  return loop_turns::wait(timeout == 0, [&] {
    return undisturbed([&] { return real_epoll_pwait(fd, events, room, timeout, mask); },
                       [&] { return real_epoll_pwait(fd, events, room, milliseconds(deadline), mask); });
  });
}

AIFLAME_EXPORT int epoll_pwait2(int fd, epoll_event* events, int room, const timespec* timeout, const sigset_t* mask) {
  if (!real_epoll_pwait2.find()) {
    errno = ENOSYS;
    return -1;
  }
  if (!signals::counting() || !valid(timeout)) return real_epoll_pwait2(fd, events, room, timeout, mask);
  Deadline deadline = Deadline::in(timeout);
  return undisturbed([&] { return real_epoll_pwait2(fd, events, room, timeout, mask); },
                     [&] {
                       timespec left = deadline.left_time();
                       return real_epoll_pwait2(fd, events, room, timeout ? &left : nullptr, mask);
                     });
}
