// Allocates a gigabyte in many ways, each in a function of its own, and keeps one block of four. It prints the bytes of each: allocated, and kept.
#include <malloc.h>
#include <sys/mman.h>
#include <cstdio>
#include <cstdlib>
#include <new>

#define APART __attribute__((noinline, noclone, optimize("no-optimize-sibling-calls")))

namespace {

APART void* by_malloc() { return malloc(200); }
APART void* by_calloc() { return calloc(3, 100'000); }
APART void* by_realloc() { return realloc(malloc(500), 1500); }
APART void* by_reallocarray() { return reallocarray(nullptr, 10, 5000); }
APART void* by_posix_memalign() {
  void* block = nullptr;
  return posix_memalign(&block, 64, 5000) ? nullptr : block;
}
APART void* by_aligned_alloc() { return aligned_alloc(128, 4096); }
APART void* by_memalign() { return memalign(32, 3000); }
APART void* by_new() { return ::operator new(900); }
APART void* by_mmap() { return mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
void unmap(void* mapping) { munmap(mapping, 1 << 20); }

struct Way {
  const char* name;
  void* (*take)();
  void (*give)(void*);
  size_t allocated, kept;  // of one block
};
constexpr Way kWays[] = {
    {"by_malloc", by_malloc, free, 200, 200},
    {"by_calloc", by_calloc, free, 300'000, 300'000},
    {"by_realloc", by_realloc, free, 2000, 1500},
    {"by_reallocarray", by_reallocarray, free, 50'000, 50'000},
    {"by_posix_memalign", by_posix_memalign, free, 5000, 5000},
    {"by_aligned_alloc", by_aligned_alloc, free, 4096, 4096},
    {"by_memalign", by_memalign, free, 3000, 3000},
    {"by_new", by_new, [](void* block) { ::operator delete(block); }, 900, 900},
    {"by_mmap", by_mmap, unmap, 1 << 20, 1 << 20},
};
constexpr size_t kEach = (1ull << 30) / (sizeof kWays / sizeof *kWays);

}  // namespace

int main() {
  for (const Way& way : kWays) {
    size_t count = kEach / way.allocated, kept = 0;
    for (size_t at = 0; at < count; at++) {
      void* block = way.take();
      if (at % 4 == 0)
        kept++;
      else
        way.give(block);
    }
    printf("%s %zu %zu\n", way.name, count * way.allocated, kept * way.kept);
  }
}
