#include "unwind/jit_code.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/own_process.hpp"
#include "base/sys.hpp"
#include "spool/spool.hpp"
#include "unwind/snapshot.hpp"

#include <algorithm>
#include <atomic>

namespace aiflame::jit {

namespace {

// A reported method. Its row is written when it first occurs in a stack: most generated code is never sampled.
struct Method {
  uint64_t address, size, seen_ns;
  uint32_t name_bytes, source_bytes, line_bytes;
  std::atomic<uint32_t> row;
  const char* text() const noexcept { return reinterpret_cast<const char*>(this + 1); }  // name, source, lines
};

struct Entry {
  uint64_t low, high;
  Method* method;  // nullptr: removed
};

// Most methods are in `sorted`; the newest wait in `fresh`, so that adding one rarely copies all others.
constexpr uint32_t kFresh = 64;
Snapshot<Entry> sorted;
AIFLAME_LARGE Entry fresh[kFresh];
std::atomic<uint32_t> fresh_count{0}, merges{0};
std::atomic<bool> any{false};

std::atomic<bool> writing{false};
class Writing {
 public:
  Writing() noexcept {
    while (writing.exchange(true, std::memory_order_acquire)) sys::call(SYS_sched_yield);
  }
  ~Writing() { writing.store(false, std::memory_order_release); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
};

// Memory for methods. It is never freed, since a stack may refer to a removed method.
void* keep(size_t bytes) noexcept {
  constexpr size_t kBlock = 1 << 20;
  static char* block;
  static size_t left;
  bytes = (bytes + 7) & ~size_t{7};
  if (bytes > left) {
    size_t size = std::max(kBlock, bytes);
    block = static_cast<char*>(sys::map_memory(size));
    left = block ? size : 0;
    if (!block) return nullptr;
  }
  void* kept = block;
  block += bytes;
  left -= bytes;
  return kept;
}

void merge() noexcept {
  size_t old_count = sorted.count();
  Entry* draft = sorted.draft(old_count + kFresh);
  if (!draft) return;
  // A newer method replaces all methods that it overlaps: their memory was reused.
  size_t count = 0;
  auto add_unless_covered = [&](const Entry& entry, uint32_t newer) {
    for (uint32_t at = newer; at < kFresh; at++)
      if (fresh[at].low < entry.high && entry.low < fresh[at].high) return;
    if (entry.method) draft[count++] = entry;
  };
  for (size_t at = 0; at < old_count; at++) add_unless_covered(sorted.entries()[at], 0);
  for (uint32_t at = 0; at < kFresh; at++) add_unless_covered(fresh[at], at + 1);
  std::sort(draft, draft + count, [](const Entry& left, const Entry& right) { return left.low < right.low; });
  sorted.publish(count);
  merges.fetch_add(1, std::memory_order_release);
  fresh_count.store(0, std::memory_order_release);
}

void put(const Entry& entry) noexcept {
  if (fresh_count.load(std::memory_order_relaxed) == kFresh) merge();
  uint32_t count = fresh_count.load(std::memory_order_relaxed);
  if (count == kFresh) return;
  fresh[count] = entry;
  fresh_count.store(count + 1, std::memory_order_release);
  any.store(true, std::memory_order_relaxed);
}

bool lookup(uint64_t pc, Entry* out) noexcept {
  for (;;) {
    uint32_t before = merges.load(std::memory_order_acquire);
    bool found = false;
    for (uint32_t at = fresh_count.load(std::memory_order_acquire); at-- > 0 && !found;) {
      found = fresh[at].low <= pc && pc < fresh[at].high;
      if (found) *out = fresh[at];
    }
    if (!found) found = sorted.find(pc, out);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (merges.load(std::memory_order_relaxed) == before) return found && out->method;
  }
}

uint32_t row_of(Method* method) noexcept {
  uint32_t row = method->row.load(std::memory_order_relaxed);
  if (row) return row;
  const char* text = method->text();
  row = spool::append(schema::JitMethod{.name = spool::text({text, method->name_bytes}),
                                        .source = spool::text({text + method->name_bytes, method->source_bytes}),
                                        .lines = spool::text({text + method->name_bytes + method->source_bytes, method->line_bytes}),
                                        .address = method->address,
                                        .size = method->size,
                                        .seen_ns = method->seen_ns});
  // Two threads may both have written it: either row is right.
  method->row.store(row, std::memory_order_relaxed);
  return row;
}

}  // namespace

void add(std::string_view name, std::string_view source, uint64_t address, uint64_t size, const Line* lines, size_t line_count) noexcept {
  if (address == 0 || size == 0 || size > UINT32_MAX) return;
  Writing lock;
  size_t line_bytes = line_count * sizeof(Line);
  auto* method = static_cast<Method*>(keep(sizeof(Method) + name.size() + source.size() + line_bytes));
  if (!method) return;
  method->address = address;
  method->size = size;
  method->seen_ns = now_ns();
  method->name_bytes = static_cast<uint32_t>(name.size());
  method->source_bytes = static_cast<uint32_t>(source.size());
  method->line_bytes = static_cast<uint32_t>(line_bytes);
  auto* text = const_cast<char*>(method->text());
  std::copy(name.begin(), name.end(), text);
  std::copy(source.begin(), source.end(), text + name.size());
  if (line_bytes) memcpy(text + name.size() + source.size(), lines, line_bytes);
  put({address, address + size, method});
}

void remove(uint64_t address) noexcept {
  Writing lock;
  Entry entry;
  if (lookup(address, &entry)) put({entry.low, entry.high, nullptr});
}

bool find(uint64_t pc, uint32_t* row, uint64_t* start) noexcept {
  Entry entry;
  if (!any.load(std::memory_order_relaxed) || !lookup(pc, &entry)) return false;
  *row = row_of(entry.method);
  *start = entry.low;
  return true;
}

void forget_rows() noexcept {
  static uint32_t owner;
  // In the child of a fork, a thread that did not come along may hold the lock.
  if (owner != own_process_id()) writing.store(false, std::memory_order_relaxed);
  owner = own_process_id();
  Writing lock;
  for (size_t at = 0; at < sorted.count(); at++) sorted.entries()[at].method->row.store(0, std::memory_order_relaxed);
  for (uint32_t at = 0; at < fresh_count.load(std::memory_order_relaxed); at++)
    if (fresh[at].method) fresh[at].method->row.store(0, std::memory_order_relaxed);
}

}  // namespace aiflame::jit
