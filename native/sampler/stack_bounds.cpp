#include "sampler/stack_bounds.hpp"

#include "base/sys.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <cstring>

namespace aiflame {

namespace {

// Parses /proc/self/maps one character at a time, so that a line needs no buffer: a tick's stack may be a few KB.
class Search {
 public:
  explicit Search(uint64_t address) noexcept : address_(address) {}

  // True when the line that covers the address is known.
  bool take(char c) noexcept {
    if (c == '\n') {
      part_ = LOW;
      low_ = high_ = 0;
    } else if (part_ == LOW) {
      c == '-' ? void(part_ = HIGH) : add(low_, c);
    } else if (part_ == HIGH) {
      if (c != ' ') {
        add(high_, c);
      } else {
        part_ = REST;
        return low_ <= address_ && address_ < high_;
      }
    }
    return false;
  }

  StackBounds bounds() const noexcept { return {low_, high_}; }

 private:
  static void add(uint64_t& value, char digit) noexcept { value = value << 4 | static_cast<uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10); }

  enum : uint8_t { LOW, HIGH, REST } part_ = LOW;
  uint64_t address_, low_ = 0, high_ = 0;
};

StackBounds mapping_around(uint64_t address) noexcept {
  long fd = sys::call(SYS_openat, AT_FDCWD, reinterpret_cast<long>("/proc/self/maps"), O_RDONLY | O_CLOEXEC);
  if (sys::failed(fd)) return {0, 0};
  Search search(address);
  char piece[512];
  bool found = false;
  while (!found) {
    long got = sys::call(SYS_read, fd, reinterpret_cast<long>(piece), sizeof piece);
    if (got == -4 /* EINTR */) continue;
    if (got <= 0) break;
    for (long at = 0; at < got && !found; at++) found = search.take(piece[at]);
  }
  sys::call(SYS_close, fd);
  return found ? search.bounds() : StackBounds{0, 0};
}

// The kernel writes the path of the program at the very top of the main thread's stack, with a word of zeros above it. Not so below an
// emulator or valgrind: 0.
uint64_t top_of_main_stack() noexcept {
  constexpr uint64_t kPage = 4096;
  auto path = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (!path) return 0;
  uint64_t top = reinterpret_cast<uint64_t>(path) + strlen(path) + 1 + sizeof(uint64_t);
  return top % kPage == 0 ? top : 0;
}

// The kernel grows this stack downwards, up to the limit.
uint64_t most_of_main_stack() noexcept {
  constexpr uint64_t kMost = 1ull << 30;
  rlimit limit{};
  bool known = !sys::failed(sys::call(SYS_prlimit64, 0, RLIMIT_STACK, 0, reinterpret_cast<long>(&limit)));
  return known && limit.rlim_cur < kMost ? limit.rlim_cur : kMost;
}

StackBounds main_stack(uint64_t sp) noexcept {
  uint64_t most = most_of_main_stack(), top = top_of_main_stack();
  if (sp < top && top - sp <= most && top > most) return {top - most, top};
  // The kernel puts these bytes above the first frame.
  uint64_t anchor = getauxval(AT_RANDOM);
  StackBounds bounds = mapping_around(anchor ? anchor : sp);
  if (bounds.high > most && bounds.high - most < bounds.low) bounds.low = bounds.high - most;
  return bounds;
}

}  // namespace

// The thread control block lies right above the stack, in the same memory: the lowest address is too low by its size.
StackBounds stack_bounds_of_new_thread(uint64_t bytes) noexcept {
  auto block = reinterpret_cast<uint64_t>(__builtin_thread_pointer());
  return bytes && bytes < block ? StackBounds{block - bytes, block} : StackBounds{0, 0};
}

StackBounds stack_bounds_around(uint64_t sp, uint64_t block, bool main_thread) noexcept {
  if (main_thread) return main_stack(sp);
  StackBounds bounds = block ? mapping_around(block) : StackBounds{0, 0};
  if (!bounds.high) return mapping_around(sp);
  bounds.high = block;
  return bounds;
}

}  // namespace aiflame
