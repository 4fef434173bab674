#include "hooks/cuda_way_out.hpp"

#include "hooks/cuda_api.hpp"
#include "sampler/threads.hpp"
#include "unwind/modules.hpp"

#include <atomic>

namespace aiflame::cuda {

namespace {

constexpr uint32_t kMostFrames = 24, kMostWays = 32, kMostEnds = 2048;
constexpr uint32_t kMostLost = 256;
constexpr uint32_t kNowhere = ~0u;

struct Return {
  uint64_t pc;
  uint32_t at;
  bool operator==(const Return&) const = default;
};
// Through CUPTI and the driver, to the address that leads out. All places are counted in bytes from the stack pointer that the callback's
// caller has.
struct Way {
  uint64_t from;    // its pc
  uint32_t bp_at;   // where the rbp at the end was saved, kNowhere: it is the one at the begin
  uint32_t end_at;  // where the address lies that leads out
  uint32_t count;
  Return returns[kMostFrames];  // before it
  bool operator==(const Way&) const = default;
};

// Written once, then read alone. They stay true: neither library goes while it calls us.
constinit Way ways[kMostWays]{};
constinit std::atomic<uint32_t> known{0};
constinit std::atomic<bool> writing{false};
// Where each way was found to lead: Triton has a launcher for each kernel, so that these are many. An entry is true by itself.
constinit std::atomic<uint64_t> ends[kMostEnds]{};
// Walks that led nowhere. After so many, unknown ways are not looked for any more, and their stacks begin in CUPTI.
constinit std::atomic<uint32_t> lost{0};

struct Range {
  std::atomic<uint64_t> low, high;
};
constinit Range inner[3]{};

bool is_inner(uint64_t pc) noexcept {
  for (const Range& range : inner)
    if (pc > range.low.load(std::memory_order_relaxed) && pc <= range.high.load(std::memory_order_relaxed)) return true;
  return false;
}

uint64_t load(uint64_t address) noexcept { return *reinterpret_cast<const uint64_t*>(address); }

// Where an end of a way is kept: there or beside it.
std::atomic<uint64_t>* place_of(uint64_t end) noexcept { return &ends[end * 0x9E3779B97F4A7C15u >> 53 & ~uint64_t{1}]; }
uint64_t end_of(uint32_t way, uint64_t pc) noexcept { return uint64_t{way + 1} << 48 | (pc & 0xFFFF'FFFF'FFFF); }

bool is_known(uint64_t end) noexcept {
  std::atomic<uint64_t>* place = place_of(end);
  return place[0].load(std::memory_order_relaxed) == end || place[1].load(std::memory_order_relaxed) == end;
}

bool leads(uint32_t number, const Registers& from, uint64_t stack_high) noexcept {
  const Way& way = ways[number];
  if (way.from != from.pc || stack_high - from.sp < way.end_at + 8) return false;
  for (uint32_t at = 0; at < way.count; at++)
    if (load(from.sp + way.returns[at].at) != way.returns[at].pc) return false;
  return is_known(end_of(number, load(from.sp + way.end_at)));
}

Registers along(const Way& way, const Registers& from) noexcept {
  uint64_t end = from.sp + way.end_at, bp = way.bp_at == kNowhere ? from.bp : load(from.sp + way.bp_at);
  return {.pc = load(end), .sp = end + 8, .bp = bp, .all = nullptr, .exact = false};
}

bool walk(Thread& thread, const Registers& from, Way* way) noexcept {
  Caller callers[kMostFrames];
  uint32_t count = thread.unwinder->callers(from, thread.stack_high, callers, kMostFrames);
  *way = {.from = from.pc, .bp_at = kNowhere};
  for (uint32_t at = 0; at < count; at++) {
    const Caller& caller = callers[at];
    auto place = static_cast<uint32_t>(caller.sp - 8 - from.sp);
    if (caller.bp_slot) way->bp_at = static_cast<uint32_t>(caller.bp_slot - from.sp);
    if (!is_inner(caller.pc)) {
      way->end_at = place;
      return true;
    }
    way->returns[way->count++] = {.pc = caller.pc, .at = place};
  }
  return false;
}

void keep(const Way& way, uint64_t pc) noexcept {
  if (writing.exchange(true, std::memory_order_acquire)) return;
  uint32_t count = known.load(std::memory_order_relaxed), number = 0;
  while (number < count && !(ways[number] == way)) number++;
  if (number < kMostWays) {
    if (number == count) {
      ways[number] = way;
      known.store(count + 1, std::memory_order_release);
    }
    uint64_t end = end_of(number, pc);
    std::atomic<uint64_t>* place = place_of(end);
    place[place[0].load(std::memory_order_relaxed) != 0].store(end, std::memory_order_relaxed);
  }
  writing.store(false, std::memory_order_release);
}

}  // namespace

void find_inner_code() noexcept {
  const void* functions[] = {reinterpret_cast<const void*>(&find_inner_code), reinterpret_cast<const void*>(cupti().Subscribe),
                             driver_function("cuInit")};
  for (size_t at = 0; at < 3; at++) {
    modules::Module module{};
    if (!functions[at] || !modules::find(reinterpret_cast<uint64_t>(functions[at]), &module)) continue;
    inner[at].low.store(module.low, std::memory_order_relaxed);
    inner[at].high.store(module.high, std::memory_order_relaxed);
  }
}

Registers way_out(Thread& thread, const Registers& from) noexcept {
  if (!thread.unwinder || from.sp < thread.stack_low || from.sp >= thread.stack_high || !is_inner(from.pc)) return from;
  uint32_t count = known.load(std::memory_order_acquire);
  static thread_local uint32_t last;
  if (last < count && leads(last, from, thread.stack_high)) return along(ways[last], from);
  for (uint32_t at = 0; at < count; at++)
    if (leads(at, from, thread.stack_high)) return along(ways[last = at], from);
  if (lost.load(std::memory_order_relaxed) >= kMostLost) return from;
  Way way;
  if (!walk(thread, from, &way)) {
    lost.fetch_add(1, std::memory_order_relaxed);
    return from;
  }
  Registers end = along(way, from);
  keep(way, end.pc);
  return end;
}

}  // namespace aiflame::cuda
