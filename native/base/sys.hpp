// System calls without libc's wrappers: they touch neither errno nor locks, so a signal handler may make them.
#pragma once
#include <sys/syscall.h>
#include <cstddef>
#include <cstdint>

namespace aiflame::sys {

// Returns the kernel's answer: a value, or -errno.
inline long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) noexcept {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return result;
}

inline bool failed(long result) noexcept { return result < 0 && result > -4096; }

// Zeroed memory directly from the kernel, nullptr if there is none.
void* map_memory(size_t bytes) noexcept;
void unmap_memory(void* memory, size_t bytes) noexcept;

// Reads the whole file, cut at `capacity`; returns the bytes read or -errno. Works on /proc.
long read_file(const char* path, char* buffer, size_t capacity) noexcept;

// True if the address is in this library's code: a system call that ends there was made by call().
bool is_ours(uint64_t address) noexcept;

uint32_t process_id() noexcept;
uint32_t thread_id() noexcept;
uint64_t thread_cpu_ns(uint32_t tid) noexcept;
uint64_t process_cpu_ns() noexcept;

}  // namespace aiflame::sys
