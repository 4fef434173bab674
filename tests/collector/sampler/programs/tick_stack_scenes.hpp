// For the scenes of tick_stack_scenes.cpp: work, threads, memory and signals.
#pragma once
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "is_recorded.hpp"

inline double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

inline void spin(double seconds) {
  if (!is_recorded()) return;
  volatile double sink = 0;
  for (double end = cpu_seconds() + seconds; cpu_seconds() < end;)
    for (int at = 0; at < 1000; at++) sink = sink + at;
}

inline long raw(long number, long a = 0, long b = 0, long c = 0) {
  long result;
  // prctl() refuses some requests whose fourth or fifth argument is not 0.
  register long fourth asm("r10") = 0, fifth asm("r8") = 0;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth) : "rcx", "r11", "memory");
  return result;
}

inline void* on_thread(void* (*work)(void*)) {
  pthread_t thread;
  void* result = nullptr;
  if (pthread_create(&thread, nullptr, work, nullptr) != 0 || pthread_join(thread, &result) != 0) abort();
  return result;
}

inline char* mapped(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  return static_cast<char*>(memory);
}

inline void handle(int signal, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(signal, &action, nullptr);
}

inline stack_t alternate(char* low, size_t bytes) {
  stack_t stack{};
  stack.ss_sp = low;
  stack.ss_size = bytes;
  if (sigaltstack(&stack, nullptr) != 0) perror("sigaltstack");
  return stack;
}

// alternate_stack_scenes.cpp
int program_alternate_stack();
int errors_of_sigaltstack();
int handler_without_alternate_stack();
int overflow_recovery();
int coroutines_by_alternate_stack();
int tiny_stacks();
int end_of_thread();

// sandbox_scenes.cpp
int clock_forbidden();
int strict_by_instruction();
int strict_by_libcs_syscall();
int filter_that_traps();
int filter_that_fails();
