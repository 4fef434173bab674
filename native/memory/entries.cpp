// The functions that the library exports: each forwards to the real one, and passes a sampled allocation, or its end, on to the collector.
//
// A call that is not sampled ends in a jump to the real function. Other calls jump to a second function: so the program's frame is the caller's in
// both.
#include "memory/collector.hpp"
#include "memory/mapped.hpp"
#include "memory/real.hpp"
#include "memory/sampled.hpp"
#include "memory/sampling.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <cerrno>
#include <cstdarg>

namespace aiflame::memory {

namespace {

using host_memory::Row;
using schema::HostMemoryKind;

__attribute__((always_inline)) inline Registers caller() noexcept {
  auto* frame = static_cast<uint64_t*>(__builtin_frame_address(0));
  return Registers{.pc = frame[1], .sp = reinterpret_cast<uint64_t>(frame + 2), .bp = frame[0], .all = nullptr, .exact = false};
}

// An allocation that failed. Small ones are hardly ever sampled, and so seldom seen here.
void refused(const Registers& from, size_t bytes) noexcept {
  const host_memory::Interface* collector = collector::interface();
  if (!bytes || !collector) return;
  int error = errno;
  collector->refused(from, bytes);
  errno = error;
}

// Passes a sampled block on to the collector, before the program knows its address.
void* pass_on(const Registers& from, void* block, size_t bytes, uint64_t weight) noexcept {
  if (!block) refused(from, bytes);
  if (!block || !weight) return block;
  const host_memory::Interface* collector = collector::interface();
  Row row = collector->taken(from, {HostMemoryKind::MALLOC, reinterpret_cast<uint64_t>(block), bytes, weight});
  if (!row) return block;
  bool kept;
  if (Row earlier = sampled::add(block, row, &kept)) collector->released(earlier, collector->now());
  if (!kept) collector->note("host memory: too many sampled blocks at once; some count as never freed");
  return block;
}

void released(Row row) noexcept {
  if (!row) return;
  const host_memory::Interface* collector = collector::interface();
  collector->released(row, collector->now());
}

#define SLOW __attribute__((noinline, cold))

SLOW void* sampled_malloc(size_t bytes) noexcept {
  Registers from = caller();
  return pass_on(from, real.malloc(bytes), bytes, sampling::weigh(bytes));
}
SLOW void* sampled_calloc(size_t count, size_t bytes) noexcept {
  Registers from = caller();
  return pass_on(from, real.calloc(count, bytes), count * bytes, sampling::weigh(count * bytes));
}
// A reallocation ends one block and begins another. If it fails, the old one stays.
SLOW void* sampled_realloc(void* block, size_t bytes) noexcept {
  Registers from = caller();
  Row row = sampled::may_have(block) ? sampled::remove(block) : 0;
  void* next = real.realloc(block, bytes);
  if (!next && bytes) {
    refused(from, bytes);
    bool kept;
    if (row) sampled::add(block, row, &kept);
    return next;
  }
  released(row);
  return sampling::passes(bytes) ? next : pass_on(from, next, bytes, sampling::weigh(bytes));
}
SLOW void sampled_free(void* block) noexcept {
  released(sampled::remove(block));
  real.free(block);
}
SLOW int sampled_posix_memalign(void** block, size_t alignment, size_t bytes) noexcept {
  Registers from = caller();
  int error = real.posix_memalign(block, alignment, bytes);
  if (error != EINVAL) pass_on(from, error ? nullptr : *block, bytes, sampling::weigh(bytes));
  return error;
}
SLOW void* sampled_aligned(void* (*function)(size_t, size_t) noexcept, size_t alignment, size_t bytes) noexcept {
  Registers from = caller();
  return pass_on(from, function(alignment, bytes), bytes, sampling::weigh(bytes));
}
SLOW void* sampled_paged(void* (*function)(size_t) noexcept, size_t bytes) noexcept {
  Registers from = caller();
  return pass_on(from, function(bytes), bytes, sampling::weigh(bytes));
}

// Memory that the program only reserves is not in use; it is not seen when it is made accessible later.
bool counts(int protection, int flags) noexcept { return flags & MAP_ANONYMOUS && protection & PROT_WRITE && !(flags & MAP_NORESERVE); }

void pass_on_mapping(const Registers& from, void* address, size_t bytes, uint64_t weight) noexcept {
  if (address == MAP_FAILED && errno == ENOMEM) refused(from, bytes);
  if (address == MAP_FAILED || !weight) return;
  const host_memory::Interface* collector = collector::interface();
  Row row = collector->taken(from, {HostMemoryKind::MAP, reinterpret_cast<uint64_t>(address), bytes, weight});
  if (row) mapped::add(reinterpret_cast<uint64_t>(address), bytes, row);
}

SLOW void* sampled_mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  Registers from = caller();
  if (flags & MAP_FIXED) mapped::cut_if_any(reinterpret_cast<uint64_t>(address), bytes);
  void* mapping = real.mmap(address, bytes, protection, flags, file, offset);
  if (counts(protection, flags) && !is_of_allocator(from.pc) && !sampling::passes(bytes))
    pass_on_mapping(from, mapping, bytes, sampling::weigh(bytes));
  return mapping;
}

// A mapping without a sample gets none: whether it is the program's own memory, or a file's, is not known here.
SLOW void* sampled_mremap(void* address, size_t bytes, size_t new_bytes, int flags, void* new_address) noexcept {
  if (!mapped::used.load(std::memory_order_relaxed)) return real.mremap(address, bytes, new_bytes, flags, new_address);
  // In place it often fails, and the old mapping stays. One that moves away leaves its addresses to other threads at once.
  auto from = reinterpret_cast<uint64_t>(address);
  uint64_t now = collector::interface()->now();
  Row moved = 0;
  if (flags & MREMAP_MAYMOVE) moved = mapped::cut(from, bytes, now);
  if (flags & MREMAP_FIXED) mapped::cut(reinterpret_cast<uint64_t>(new_address), new_bytes, now);
  void* mapping = real.mremap(address, bytes, new_bytes, flags, new_address);
  if (mapping == MAP_FAILED) {
    if (moved) mapped::keep(moved, from, from + bytes, now);
    return mapping;
  }
  if (!(flags & MREMAP_MAYMOVE)) moved = mapped::cut(from, bytes, now);
  auto to = reinterpret_cast<uint64_t>(mapping);
  if (moved) mapped::keep(moved, to, to + new_bytes, now);
  return mapping;
}

__attribute__((constructor)) void on_load() noexcept { pthread_atfork(nullptr, nullptr, sampling::begin_anew); }

}  // namespace

}  // namespace aiflame::memory

using namespace aiflame::memory;

#define EXPORT extern "C" __attribute__((visibility("default")))

// Called by the collector when a recording begins.
EXPORT void aiflame_memory_recorded() noexcept {
  sampling::begin_anew();
  const aiflame::host_memory::Interface* collector = collector::interface();
  if (is_passed_over())
    collector->note("the program has a malloc() of its own: of its host memory only mappings are recorded");
  else if (has_own_new())
    collector->note("C++'s new comes from an allocator that does not call malloc(): what it allocates is not recorded");
}

EXPORT void* malloc(size_t bytes) noexcept { return sampling::passes(bytes) ? real.malloc(bytes) : sampled_malloc(bytes); }

EXPORT void* calloc(size_t count, size_t bytes) noexcept {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all) || sampling::passes(all)) return real.calloc(count, bytes);
  return sampled_calloc(count, bytes);
}

EXPORT void* realloc(void* block, size_t bytes) noexcept {
  if (sampled::may_have(block) || !sampling::passes(bytes)) [[unlikely]]
    return sampled_realloc(block, bytes);
  return real.realloc(block, bytes);
}

// libc's would call realloc(), which is ours.
EXPORT void* reallocarray(void* block, size_t count, size_t bytes) noexcept {
  size_t all;
  if (!__builtin_mul_overflow(count, bytes, &all)) return realloc(block, all);
  errno = ENOMEM;
  return nullptr;
}

EXPORT void free(void* block) noexcept {
  if (sampled::may_have(block)) [[unlikely]]
    return sampled_free(block);
  real.free(block);
}

EXPORT int posix_memalign(void** block, size_t alignment, size_t bytes) noexcept {
  return sampling::passes(bytes) ? real.posix_memalign(block, alignment, bytes) : sampled_posix_memalign(block, alignment, bytes);
}
EXPORT void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return sampling::passes(bytes) ? real.aligned_alloc(alignment, bytes) : sampled_aligned(real.aligned_alloc, alignment, bytes);
}
EXPORT void* memalign(size_t alignment, size_t bytes) noexcept {
  return sampling::passes(bytes) ? real.memalign(alignment, bytes) : sampled_aligned(real.memalign, alignment, bytes);
}
EXPORT void* valloc(size_t bytes) noexcept { return sampling::passes(bytes) ? real.valloc(bytes) : sampled_paged(real.valloc, bytes); }
EXPORT void* pvalloc(size_t bytes) noexcept { return sampling::passes(bytes) ? real.pvalloc(bytes) : sampled_paged(real.pvalloc, bytes); }

EXPORT void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  if (flags & (MAP_ANONYMOUS | MAP_FIXED)) return sampled_mmap(address, bytes, protection, flags, file, offset);
  return real.mmap(address, bytes, protection, flags, file, offset);
}
EXPORT void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept __attribute__((alias("mmap")));

EXPORT int munmap(void* address, size_t bytes) noexcept {
  mapped::cut_if_any(reinterpret_cast<uint64_t>(address), bytes);
  return real.munmap(address, bytes);
}

EXPORT void* mremap(void* address, size_t bytes, size_t new_bytes, int flags, ...) noexcept {
  va_list more;
  va_start(more, flags);
  void* new_address = flags & MREMAP_FIXED ? va_arg(more, void*) : nullptr;
  va_end(more);
  return sampled_mremap(address, bytes, new_bytes, flags, new_address);
}
