// Scenes of a program that starts threads and other programs, and waits.
#include <alloca.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ticks.hpp"

extern "C" pid_t _Fork(void);
extern "C" int execveat(int, const char*, char* const*, char* const*, int);

namespace {

volatile double sink;

void burn(long turns) {
  double sum = 0;
  for (long turn = 0; turn < turns; turn++) sum += static_cast<double>(turn) * 0.5;
  sink = sum;
}

void burn_until_sampled() {
  for (OwnTicks ticks; !ticks.came();) burn(100000);
}

// Threads ---------------------------------------------------------------------------------------------------------------------

void* print_attributes(void* wanted_stack) {
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  size_t guard, stack_bytes;
  void* stack;
  int detached;
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_getstack(&attributes, &stack, &stack_bytes);
  pthread_attr_getdetachstate(&attributes, &detached);
  printf("guard %zu stack %zu detached %d own %d\n", guard, stack_bytes, detached == PTHREAD_CREATE_DETACHED,
         wanted_stack ? stack == wanted_stack : 1);
  return wanted_stack;
}

void thread_attributes() {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setguardsize(&attributes, 3 * 4096);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  int made = pthread_create(&thread, &attributes, print_attributes, nullptr);
  pthread_join(thread, nullptr);
  printf("%d\n", made);
  void* own = aligned_alloc(4096, 128 * 1024);
  pthread_attr_setstack(&attributes, own, 128 * 1024);
  made = pthread_create(&thread, &attributes, print_attributes, own);
  void* result = nullptr;
  pthread_join(thread, &result);
  printf("%d\n", made);
  printf("result %d\n", result == own);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16384);  // the smallest
  made = pthread_create(&thread, &attributes, print_attributes, nullptr);
  pthread_join(thread, nullptr);
  printf("%d\n", made);
  pthread_attr_setstacksize(&attributes, size_t{1} << 46);
  printf("too large %d\n", pthread_create(&thread, &attributes, print_attributes, nullptr));
}

pthread_key_t key;
void* exits(void*) {
  pthread_setspecific(key, &key);
  pthread_cleanup_push([](void*) { printf("cleanup\n"); }, nullptr);
  pthread_exit(reinterpret_cast<void*>(5));
  pthread_cleanup_pop(0);
}
void* waits(void*) {
  pthread_setspecific(key, &key);
  for (;;) pause();
}

struct Local {
  ~Local() { printf("thread local\n"); }
};
thread_local Local local;

void thread_ends() {
  pthread_t thread;
  void* result;
  pthread_key_create(&key, [](void*) { printf("destructor\n"); });
  pthread_create(&thread, nullptr, exits, nullptr);
  pthread_join(thread, &result);
  printf("exit %ld\n", reinterpret_cast<long>(result));
  pthread_create(&thread, nullptr, waits, nullptr);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("cancelled %d\n", result == PTHREAD_CANCELED);
  pthread_create(&thread, nullptr, [](void*) -> void* { return &local, reinterpret_cast<void*>(7); }, nullptr);
  pthread_join(thread, &result);
  printf("returned %ld\n", reinterpret_cast<long>(result));
  thrd_t c11;
  int status = 0;
  thrd_create(&c11, [](void* argument) { return *static_cast<int*>(argument); }, std::vector<int>{-42}.data());
  thrd_join(c11, &status);
  printf("c11 %d\n", status == -42 || status != 0);
}

// Frames of a new thread, as its own backtrace() sees them.
void thread_frames() {
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        void* frames[64];
        int count = backtrace(frames, 64);
        char** names = backtrace_symbols(frames, count);
        int ours = 0;
        for (int at = 0; at < count; at++) ours += strstr(names[at], "libaiflame") != nullptr;
        printf("frames %d ours %d\n", count, ours);
        return nullptr;
      },
      nullptr);
  pthread_join(thread, nullptr);
}

void* burns(void*) { return burn(30000000), nullptr; }
__attribute__((noinline)) void creates_here(pthread_t* thread) { pthread_create(thread, nullptr, burns, nullptr); }
void many_threads() {
  for (int round = 0; round < 10; round++) {
    pthread_t threads[8];
    for (pthread_t& thread : threads) creates_here(&thread);
    for (pthread_t& thread : threads) pthread_join(thread, nullptr);
  }
}

// Other programs --------------------------------------------------------------------------------------------------------------

char* bare[] = {nullptr};

void child_of(const char* how, const char* self) {
  std::string shown = std::string("child-") + how;
  char* arguments[] = {const_cast<char*>(self), const_cast<char*>("work"), const_cast<char*>(shown.c_str()), nullptr};
  auto is = [how](const char* name) { return strcmp(how, name) == 0; };
  std::vector<std::string> many;
  std::vector<char*> large;
  for (int at = 0; at < 20000; at++) many.push_back("VARIABLE_" + std::to_string(at) + "=" + std::string(20, 'x'));
  for (std::string& one : many) large.push_back(one.data());
  large.push_back(nullptr);
  char preload[] = "LD_PRELOAD=libm.so.6";
  char* with_preload[] = {preload, nullptr};
  pid_t pid = -1;
  if (is("posix_spawn")) {
    posix_spawn(&pid, self, nullptr, nullptr, arguments, bare);
  } else if (is("posix_spawnp")) {
    posix_spawnp(&pid, self, nullptr, nullptr, arguments, bare);
  } else {
    pid = is("_Fork") ? _Fork() : is("fork_execve") ? fork() : vfork();
  }
  if (pid == 0) {
    if (is("execv")) execv(self, arguments);
    if (is("execvp")) execvp(self, arguments);
    if (is("execvpe")) execvpe(self, arguments, bare);
    if (is("execl")) execl(self, self, "work", shown.c_str(), nullptr);
    if (is("execlp")) execlp(self, self, "work", shown.c_str(), nullptr);
    if (is("execle")) execle(self, self, "work", shown.c_str(), nullptr, bare);
    if (is("fexecve")) fexecve(open(self, O_RDONLY), arguments, bare);
    if (is("execveat")) execveat(AT_FDCWD, self, arguments, bare, 0);
    if (is("large")) execve(self, arguments, large.data());
    if (is("null")) execve(self, arguments, nullptr);
    if (is("preload")) execve(self, arguments, with_preload);
    execve("/nonexistent", arguments, bare);
    if (errno != ENOENT) _exit(9);
    execve(self, arguments, bare);
    _exit(8);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  printf("%s %d\n", how, status);
  burn_until_sampled();
}

// Waits -----------------------------------------------------------------------------------------------------------------------

uint64_t now_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000u + static_cast<uint64_t>(time.tv_nsec) / 1000000u;
}

// Each call's answer when nothing happens for 120 ms, and whether it really waited that long.
template <class Call>
void wait_for(const char* name, Call call) {
  uint64_t start = now_ms();
  errno = 0;
  long result = static_cast<long>(call());
  int error = errno;
  printf("%s %ld %d early %d\n", name, result, result == -1 ? error : 0, now_ms() - start < 119);
}

void waits_undisturbed() {
  timespec time{0, 120000000};
  timeval short_time{0, 120000};
  int pair[2], pipe_ends[2];
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &short_time, sizeof short_time);
  if (pipe(pipe_ends) != 0) return;
  pollfd one{pipe_ends[0], POLLIN, 0};
  int epoll = epoll_create1(0);
  epoll_event event{};
  epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_ends[0], &event);
  auto absolute = [](clockid_t clock) {
    timespec until;
    clock_gettime(clock, &until);
    until.tv_nsec += 120000000;
    if (until.tv_nsec >= 1000000000) until = {until.tv_sec + 1, until.tv_nsec - 1000000000};
    return until;
  };
  char byte;
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(pipe_ends[0], &set);
  wait_for("nanosleep", [&] { return nanosleep(&time, nullptr); });
  wait_for("clock_nanosleep", [&] { return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr); });
  wait_for("absolute", [&] {
    timespec until = absolute(CLOCK_REALTIME);
    return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr);
  });
  wait_for("usleep", [&] { return usleep(120000); });
  wait_for("sleep", [&] { return sleep(1); });
  wait_for("thrd_sleep", [&] { return thrd_sleep(&time, nullptr); });
  wait_for("poll", [&] { return poll(&one, 1, 120); });
  wait_for("ppoll", [&] { return ppoll(&one, 1, &time, nullptr); });
  wait_for("select", [&] {
    timeval left = short_time;
    fd_set copy = set;
    return select(pipe_ends[0] + 1, &copy, nullptr, nullptr, &left) + (left.tv_sec != 0 || left.tv_usec != 0);
  });
  wait_for("pselect", [&] {
    fd_set copy = set;
    return pselect(pipe_ends[0] + 1, &copy, nullptr, nullptr, &time, nullptr);
  });
  wait_for("epoll_wait", [&] { return epoll_wait(epoll, &event, 1, 120); });
  wait_for("epoll_pwait", [&] { return epoll_pwait(epoll, &event, 1, 120, nullptr); });
  wait_for("sem_timedwait", [&] {
    timespec until = absolute(CLOCK_REALTIME);
    return sem_timedwait(&semaphore, &until);
  });
  wait_for("sigtimedwait", [&] { return sigtimedwait(&usr1, nullptr, &time); });
  wait_for("recv", [&] { return recv(pair[0], &byte, 1, 0); });
  int semaphores = semget(IPC_PRIVATE, 1, 0600);
  sembuf take{0, -1, 0};
  wait_for("semtimedop", [&] { return semtimedop(semaphores, &take, 1, &time); });
  semctl(semaphores, 0, IPC_RMID);
}

void nothing(int) {}

// A handler of the program's still ends its waits.
void waits_interrupted() {
  struct sigaction action{};
  action.sa_handler = nothing;
  sigaction(SIGALRM, &action, nullptr);
  pollfd none{-1, 0, 0};
  timespec hour{3600, 0}, rest{};
  sigset_t empty;
  sigemptyset(&empty);
  auto alarmed = [](const char* name, auto call) {
    // Again and again: the first may come before the call.
    itimerval soon{{0, 50000}, {0, 50000}}, never{};
    setitimer(ITIMER_REAL, &soon, nullptr);
    errno = 0;
    long result = static_cast<long>(call());
    int error = errno;
    setitimer(ITIMER_REAL, &never, nullptr);
    printf("%s %ld %d\n", name, result, error);
  };
  alarmed("nanosleep", [&] { return nanosleep(&hour, &rest); });
  printf("rest %d\n", rest.tv_sec > 3000 && rest.tv_sec < 3600);
  alarmed("clock_nanosleep", [&] { return clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, &rest); });
  alarmed("sleep", [&] { return sleep(3600) > 3000; });
  alarmed("poll", [&] { return poll(&none, 1, -1); });
  alarmed("ppoll", [&] { return ppoll(&none, 1, &hour, &empty); });
  alarmed("select", [&] { return select(0, nullptr, nullptr, nullptr, nullptr); });
  alarmed("pause", [] { return pause(); });
  alarmed("sigsuspend", [&] { return sigsuspend(&empty); });
  alarmed("semaphore", [] {
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    timespec until{time(nullptr) + 3600, 0};
    return sem_timedwait(&semaphore, &until);
  });
}

void waits_for_any_signal() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        usleep(300000);
        kill(getpid(), SIGUSR2);
        return nullptr;
      },
      nullptr);
  int signal = 0;
  int result = sigwait(&all, &signal);
  printf("sigwait %d %d\n", result, signal);
  pthread_join(thread, nullptr);
}

void end_raw() {
  burn_until_sampled();
  printf("ends\n");
  fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  auto is = [&](const char* name) { return strcmp(arguments[1], name) == 0; };
  burn(5000000);
  if (is("work")) burn_until_sampled();
  if (is("thread_attributes")) thread_attributes();
  if (is("thread_ends")) thread_ends();
  if (is("thread_frames")) thread_frames();
  if (is("many_threads")) many_threads();
  if (is("children"))
    for (int at = 2; at < count; at++) child_of(arguments[at], arguments[0]);
  if (is("waits_undisturbed")) waits_undisturbed();
  if (is("waits_interrupted")) waits_interrupted();
  if (is("waits_for_any_signal")) waits_for_any_signal();
  if (is("_exit")) end_raw(), _exit(41);
  if (is("_Exit")) end_raw(), _Exit(42);
  if (is("quick_exit")) end_raw(), quick_exit(43);
  if (is("exit")) end_raw(), exit(44);
  if (is("daemon") && daemon(1, 1) == 0) end_raw();
  if (is("work") && count > 2 && strcmp(arguments[2], "child-preload") == 0 && !getenv("LD_PRELOAD")) return 7;
  return 0;
}
