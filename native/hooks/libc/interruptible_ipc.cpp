// Interruptible calls that wait for other processes and threads: signals, semaphores, messages, sockets. See interruptible_calls.hpp.
#include "hooks/libc/interruptible_calls.hpp"
#include "hooks/libc/resolve.hpp"
#include "hooks/shared/exported.hpp"
#include "sampler/interposed_signals.hpp"

#include <poll.h>
#include <semaphore.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <unistd.h>

namespace aiflame::hooks {

namespace {

Real<int(), "pause"> real_pause;
Real<int(const sigset_t*), "sigsuspend"> real_sigsuspend;
Real<int(const sigset_t*, int*), "sigwait"> real_sigwait;
Real<int(const sigset_t*, siginfo_t*), "sigwaitinfo"> real_sigwaitinfo;
Real<int(const sigset_t*, siginfo_t*, const timespec*), "sigtimedwait"> real_sigtimedwait;
Real<int(sem_t*, const timespec*), "sem_timedwait"> real_sem_timedwait;
Real<int(sem_t*, clockid_t, const timespec*), "sem_clockwait"> real_sem_clockwait;
Real<int(int, sembuf*, size_t), "semop"> real_semop;
Real<int(int, sembuf*, size_t, const timespec*), "semtimedop"> real_semtimedop;
Real<ssize_t(int, void*, size_t, long, int), "msgrcv"> real_msgrcv;
Real<int(int, const void*, size_t, int), "msgsnd"> real_msgsnd;
Real<int(pollfd*, nfds_t, const timespec*, const sigset_t*), "ppoll"> real_ppoll;
Real<int(int, sockaddr*, socklen_t*), "accept"> real_accept;
Real<int(int, sockaddr*, socklen_t*, int), "accept4"> real_accept4;
Real<int(int, const sockaddr*, socklen_t), "connect"> real_connect;
Real<ssize_t(int, void*, size_t, int), "recv"> real_recv;
Real<ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*), "recvfrom"> real_recvfrom;
Real<ssize_t(int, msghdr*, int), "recvmsg"> real_recvmsg;
Real<ssize_t(int, const void*, size_t, int), "send"> real_send;
Real<ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t), "sendto"> real_sendto;
Real<ssize_t(int, const msghdr*, int), "sendmsg"> real_sendmsg;

// A wait for "every signal" takes our ticks from the queue, too.
bool is_tick(const siginfo_t& info) noexcept {
  return info.si_signo == SIGPROF && info.si_code == SI_TIMER && info.si_value.sival_int == signals::kTickCookie;
}

bool may_take_ticks(const sigset_t* set) noexcept { return signals::installed() && (signals::counting() || sigismember(set, SIGPROF) == 1); }

int wait_signal(const sigset_t* set, siginfo_t* info, const timespec* timeout) {
  Deadline deadline = Deadline::in(timeout);
  siginfo_t own;
  siginfo_t* found = info ? info : &own;
  Watch watch;
  for (;;) {
    timespec left = deadline.left_time();
    int signal = real_sigtimedwait(set, found, timeout ? &left : nullptr);
    if (signal == -1 ? watch.only_ticks(errno) : is_tick(*found)) continue;
    return signal;
  }
}

// A socket call with a timeout (the kernel restarts others): ppoll waits for the rest of it.
template <class Call>
auto with_socket(int fd, int option, short events, int late, Call call) {
  if (!signals::counting()) return call();
  uint64_t start = now_ns();
  Watch watch;
  for (;;) {
    auto result = call();
    if (result != -1 || !watch.only_ticks(errno)) return result;
    timeval timeout{};
    socklen_t bytes = sizeof timeout;
    if (getsockopt(fd, SOL_SOCKET, option, &timeout, &bytes) != 0) timeout = {};
    uint64_t limit = static_cast<uint64_t>(timeout.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(timeout.tv_usec) * 1000u;
    if (limit == 0) continue;
    int ready;
    do {
      uint64_t used = now_ns() - start, left = used < limit ? limit - used : 0;
      timespec time{static_cast<time_t>(left / 1'000'000'000u), static_cast<long>(left % 1'000'000'000u)};
      pollfd one{fd, events, 0};
      ready = real_ppoll(&one, 1, &time, nullptr);
    } while (ready == -1 && watch.only_ticks(errno));
    if (ready == 1) continue;
    if (ready == 0) errno = late;
    return static_cast<decltype(result)>(-1);
  }
}

template <class Call>
auto receiving(int fd, Call call) {
  return with_socket(fd, SO_RCVTIMEO, POLLIN, EAGAIN, call);
}
template <class Call>
auto sending(int fd, Call call) {
  return with_socket(fd, SO_SNDTIMEO, POLLOUT, EAGAIN, call);
}

template <class Call>
auto if_counting(Call call) {
  return signals::counting() ? undisturbed(call) : call();
}

}  // namespace

void resolve_interruptible_ipc() noexcept {
  find_all(real_pause, real_sigsuspend, real_sigwait, real_sigwaitinfo, real_sigtimedwait, real_sem_timedwait, real_sem_clockwait, real_semop,
           real_semtimedop, real_msgrcv, real_msgsnd, real_ppoll, real_accept, real_accept4, real_connect, real_recv, real_recvfrom, real_recvmsg,
           real_send, real_sendto, real_sendmsg);
}

}  // namespace aiflame::hooks

using namespace aiflame;
using namespace aiflame::hooks;

AIFLAME_EXPORT int pause() {
  return if_counting([] { return real_pause(); });
}
AIFLAME_EXPORT int sigsuspend(const sigset_t* mask) {
  return if_counting([=] { return real_sigsuspend(mask); });
}

AIFLAME_EXPORT int sigwait(const sigset_t* set, int* signal) {
  if (!may_take_ticks(set)) return real_sigwait(set, signal);
  int found, before = errno;
  do found = wait_signal(set, nullptr, nullptr);
  while (found == -1 && errno == EINTR);
  int error = errno;
  errno = before;
  if (found == -1) return error;
  *signal = found;
  return 0;
}
AIFLAME_EXPORT int sigwaitinfo(const sigset_t* set, siginfo_t* info) {
  return may_take_ticks(set) ? wait_signal(set, info, nullptr) : real_sigwaitinfo(set, info);
}
AIFLAME_EXPORT int sigtimedwait(const sigset_t* set, siginfo_t* info, const timespec* timeout) {
  return may_take_ticks(set) && valid(timeout) ? wait_signal(set, info, timeout) : real_sigtimedwait(set, info, timeout);
}

// Their times are absolute.
AIFLAME_EXPORT int sem_timedwait(sem_t* semaphore, const timespec* until) {
  return if_counting([=] { return real_sem_timedwait(semaphore, until); });
}
AIFLAME_EXPORT int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* until) {
  return if_counting([=] { return real_sem_clockwait(semaphore, clock, until); });
}

AIFLAME_EXPORT int semop(int id, sembuf* operations, size_t count) noexcept {
  return if_counting([=] { return real_semop(id, operations, count); });
}
AIFLAME_EXPORT int semtimedop(int id, sembuf* operations, size_t count, const timespec* timeout) noexcept {
  if (!signals::counting() || !valid(timeout)) return real_semtimedop(id, operations, count, timeout);
  Deadline deadline = Deadline::in(timeout);
  return undisturbed([=] { return real_semtimedop(id, operations, count, timeout); },
                     [&] {
                       timespec left = deadline.left_time();
                       return real_semtimedop(id, operations, count, timeout ? &left : nullptr);
                     });
}

AIFLAME_EXPORT ssize_t msgrcv(int id, void* message, size_t bytes, long type, int flags) {
  return if_counting([=] { return real_msgrcv(id, message, bytes, type, flags); });
}
AIFLAME_EXPORT int msgsnd(int id, const void* message, size_t bytes, int flags) {
  return if_counting([=] { return real_msgsnd(id, message, bytes, flags); });
}

AIFLAME_EXPORT int accept(int fd, sockaddr* address, socklen_t* bytes) {
  return receiving(fd, [=] { return real_accept(fd, address, bytes); });
}
AIFLAME_EXPORT int accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  return receiving(fd, [=] { return real_accept4(fd, address, bytes, flags); });
}
// An interrupted connect() goes on in the kernel; calling again waits for its end.
AIFLAME_EXPORT int connect(int fd, const sockaddr* address, socklen_t bytes) {
  return with_socket(fd, SO_SNDTIMEO, POLLOUT, EINPROGRESS, [=] { return real_connect(fd, address, bytes); });
}
AIFLAME_EXPORT ssize_t recv(int fd, void* buffer, size_t bytes, int flags) {
  return receiving(fd, [=] { return real_recv(fd, buffer, bytes, flags); });
}
AIFLAME_EXPORT ssize_t recvfrom(int fd, void* buffer, size_t bytes, int flags, sockaddr* address, socklen_t* address_bytes) {
  return receiving(fd, [=] { return real_recvfrom(fd, buffer, bytes, flags, address, address_bytes); });
}
AIFLAME_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return receiving(fd, [=] { return real_recvmsg(fd, message, flags); });
}
AIFLAME_EXPORT ssize_t send(int fd, const void* buffer, size_t bytes, int flags) {
  return sending(fd, [=] { return real_send(fd, buffer, bytes, flags); });
}
AIFLAME_EXPORT ssize_t sendto(int fd, const void* buffer, size_t bytes, int flags, const sockaddr* address, socklen_t address_bytes) {
  return sending(fd, [=] { return real_sendto(fd, buffer, bytes, flags, address, address_bytes); });
}
AIFLAME_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return sending(fd, [=] { return real_sendmsg(fd, message, flags); });
}
