// The functions behind ours: libc's, or those of an allocator that is loaded behind us (jemalloc, tcmalloc …).
#pragma once
#include <sys/types.h>
#include <cstddef>
#include <cstdint>

namespace aiflame::memory {

struct Real {
  void* (*malloc)(size_t bytes) noexcept;
  void* (*calloc)(size_t count, size_t bytes) noexcept;
  void* (*realloc)(void* block, size_t bytes) noexcept;
  void (*free)(void* block) noexcept;
  int (*posix_memalign)(void** block, size_t alignment, size_t bytes) noexcept;
  void* (*aligned_alloc)(size_t alignment, size_t bytes) noexcept;
  void* (*memalign)(size_t alignment, size_t bytes) noexcept;
  void* (*valloc)(size_t bytes) noexcept;
  void* (*pvalloc)(size_t bytes) noexcept;
  void* (*mmap)(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept;
  int (*munmap)(void* address, size_t bytes) noexcept;
  void* (*mremap)(void* address, size_t bytes, size_t new_bytes, int flags, void* new_address) noexcept;
};

// Until the first call of any of them its members look all of them up. The dynamic linker allocates before any constructor runs.
extern Real real;

// True if the address is in the code of an allocator that is not libc's: it takes its memory by calls of mmap().
bool is_of_allocator(uint64_t address) noexcept;

// True if the program, or a library in front of us, has a malloc() of its own, which is called instead of ours.
bool is_passed_over() noexcept;

// True if C++'s new comes from an allocator behind us: it does not call malloc().
bool has_own_new() noexcept;

}  // namespace aiflame::memory
