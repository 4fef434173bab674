// Stacks that leave a tick little room, or that are not the thread's own. Prints "alive" at the end.
#include <climits>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <ucontext.h>

#include "ticks.hpp"

namespace {

constexpr size_t kSmallAlternate = 8192;

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

__attribute__((noinline)) void spin(double seconds) {
  for (double end = cpu_seconds() + seconds; cpu_seconds() < end;) {
  }
}

void use_alternate_stack(size_t bytes) {
  stack_t stack{};
  stack.ss_sp = malloc(bytes);
  stack.ss_size = bytes;
  sigaltstack(&stack, nullptr);
}

void* run_in_library(void* function) {
  OwnTicks ticks;
  auto over = [](void* ticks) { return static_cast<OwnTicks*>(ticks)->came(); };
  reinterpret_cast<void (*)(bool (*)(void*), void*)>(function)(over, &ticks);
  return nullptr;
}

// Each library is new to the collector when a tick meets it, on the smallest stack that a thread may have.
int small_threads(int count, char** libraries) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, 16384) != 0) return 2;
  for (int at = 0; at < count; at++) {
    void* library = dlopen(libraries[at], RTLD_NOW);
    void* function = library ? dlsym(library, "spin_in_library") : nullptr;
    pthread_t thread;
    if (!function || pthread_create(&thread, &attributes, run_in_library, function) != 0) return 3;
    pthread_join(thread, nullptr);
  }
  return 0;
}

void* library_function;
void on_user_signal(int) { run_in_library(library_function); }

// Ticks inside a handler that itself runs on an alternate stack of 8 KB.
int small_alternate(int count, char** libraries) {
  use_alternate_stack(kSmallAlternate);
  struct sigaction action{};
  action.sa_handler = on_user_signal;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  for (int at = 0; at < count; at++) {
    void* library = dlopen(libraries[at], RTLD_NOW);
    library_function = library ? dlsym(library, "spin_in_library") : nullptr;
    if (!library_function) return 3;
    raise(SIGUSR1);
  }
  return 0;
}

ucontext_t outside, inside;
alignas(16) char coroutine_stack[3072];
OwnTicks* ticks_inside;
void coroutine() {
  while (!ticks_inside->came()) spin(0.01);
  swapcontext(&inside, &outside);
}

// A coroutine with less stack than a signal frame needs, in a thread with an alternate stack.
int small_coroutine(int, char**) {
  use_alternate_stack(kSmallAlternate);
  memset(coroutine_stack, 0, sizeof coroutine_stack);
  OwnTicks ticks;  // before the coroutine's signal mask is made
  ticks_inside = &ticks;
  getcontext(&inside);
  inside.uc_stack.ss_sp = coroutine_stack;
  inside.uc_stack.ss_size = sizeof coroutine_stack;
  makecontext(&inside, coroutine, 0);
  swapcontext(&outside, &inside);
  return 0;
}

sem_t adopted;
void* spin_with_alternate_stack(void*) {
  use_alternate_stack(65536);
  sem_wait(&adopted);
  for (OwnTicks ticks; !ticks.came();) spin(0.01);
  return nullptr;
}

// A thread that the collector does not see come, and first meets, while it waits, by a signal on the alternate stack that the thread has.
int unseen_thread(int, char**) {
  sem_init(&adopted, 0, 0);
  void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  auto* create = reinterpret_cast<decltype(&pthread_create)>(dlsym(libc, "pthread_create"));
  pthread_t thread;
  if (!create || create(&thread, nullptr, spin_with_alternate_stack, nullptr) != 0) return 3;
  while (timers() < 2) spin(0.01);  // ticks here find the other thread
  sem_post(&adopted);
  pthread_join(thread, nullptr);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const struct {
    const char* name;
    int (*run)(int, char**);
  } scenes[] = {
      {"small_threads", small_threads}, {"small_alternate", small_alternate}, {"small_coroutine", small_coroutine}, {"unseen_thread", unseen_thread}};
  for (const auto& scene : scenes) {
    if (count < 2 || strcmp(scene.name, arguments[1]) != 0) continue;
    int status = scene.run(count - 2, arguments + 2);
    if (status == 0) puts("alive");
    return status;
  }
  return 1;
}
