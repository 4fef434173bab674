#include "base/sys.hpp"

#include "base/places.hpp"
#include "base/thread_sanitizer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <ctime>

namespace aiflame::sys {

void* map_memory(size_t bytes) noexcept {
  long result = places::map_clear(bytes, places::Mend::YES, [bytes]() noexcept {
    return call(SYS_mmap, 0, static_cast<long>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  });
  return failed(result) ? nullptr : reinterpret_cast<void*>(result);
}

void unmap_memory(void* memory, size_t bytes) noexcept {
  thread_sanitizer::before_unmap();
  if (memory) call(SYS_munmap, reinterpret_cast<long>(memory), static_cast<long>(bytes));
}

long read_file(const char* path, char* buffer, size_t capacity) noexcept {
  long fd = call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return fd;
  size_t filled = 0;
  while (filled < capacity) {
    long got = call(SYS_read, fd, reinterpret_cast<long>(buffer + filled), static_cast<long>(capacity - filled));
    if (got == -4 /* EINTR */) continue;
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  call(SYS_close, fd);
  return static_cast<long>(filled);
}

// The linker's own names for the ends of this library.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[], _end[];

bool is_ours(uint64_t address) noexcept { return address >= reinterpret_cast<uint64_t>(__ehdr_start) && address < reinterpret_cast<uint64_t>(_end); }

uint32_t process_id() noexcept { return static_cast<uint32_t>(call(SYS_getpid)); }
uint32_t thread_id() noexcept { return static_cast<uint32_t>(call(SYS_gettid)); }

namespace {
uint64_t cpu_ns(long clock) noexcept {
  timespec now{};
  if (failed(call(SYS_clock_gettime, clock, reinterpret_cast<long>(&now)))) return 0;
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}
}  // namespace

// The kernel's encoding of "CPU clock of thread tid": ~tid << 3 | CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED.
uint64_t thread_cpu_ns(uint32_t tid) noexcept { return cpu_ns(static_cast<int>(~tid << 3 | 6u)); }
uint64_t process_cpu_ns() noexcept { return cpu_ns(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace aiflame::sys
