// A program with a malloc() of its own, as games and databases have.
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace {
alignas(16) char arena[1 << 24];
size_t used = 0;
}  // namespace

extern "C" void* malloc(size_t bytes) {
  size_t at = used;
  used += (bytes + 31) / 16 * 16;
  if (used > sizeof arena) return nullptr;
  memcpy(arena + at, &bytes, sizeof bytes);
  return arena + at + 16;
}
extern "C" void free(void*) {}
extern "C" void* calloc(size_t count, size_t bytes) { return malloc(count * bytes); }
extern "C" void* realloc(void* block, size_t bytes) {
  void* next = malloc(bytes);
  if (block && next) memcpy(next, block, bytes);
  return next;
}

int main() {
  char* text = static_cast<char*>(malloc(100));
  for (int at = 0; at < 1000; at++) free(malloc(1000));
  snprintf(text, 100, "own %d", used > 1'000'000);
  puts(text);
}
