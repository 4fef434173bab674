#include "hooks/cuda/skip_driver_frames.hpp"

#include "base/large.hpp"
#include "hooks/cuda/cupti_api.hpp"
#include "sampler/threads.hpp"
#include "unwind/modules.hpp"

#include <atomic>

namespace aiflame::cuda {

namespace {

constexpr uint32_t kMostFrames = 24, kMostWays = 64;
constexpr uint32_t kMostLost = 256;
constexpr uint32_t kNowhere = ~0u;

// A return address on the way. All places are counted in bytes from the stack pointer that the callback's caller has.
struct Return {
  uint64_t pc;
  uint32_t at;
  uint32_t bp_at;  // where the rbp was saved that led to it, kNowhere: it is the one at the begin
  uint32_t bp;     // which place that rbp is, kNowhere: it was not needed
  bool operator==(const Return&) const = default;
};
struct Way {
  uint64_t from;   // the caller's pc
  uint32_t bp_at;  // the same, for the rbp at the end
  uint32_t count;
  Return returns[kMostFrames];
  bool operator==(const Way&) const = default;
};

// Written once, then read alone. They stay true: neither library goes while it calls us.
AIFLAME_LARGE constinit Way ways[kMostWays]{};
constinit std::atomic<uint32_t> known{0};
constinit std::atomic<bool> writing{false};
// Walks that led nowhere. After so many, unknown ways are not looked for any more, and their stacks begin in CUPTI.
constinit std::atomic<uint32_t> lost{0};

struct Range {
  std::atomic<uint64_t> low, high;
  bool has(uint64_t pc) const noexcept { return pc > low.load(std::memory_order_relaxed) && pc <= high.load(std::memory_order_relaxed); }
};
constinit Range own{}, of_cupti{}, of_driver{};

bool is_inner(uint64_t pc) noexcept { return own.has(pc) || of_cupti.has(pc) || of_driver.has(pc); }

uint64_t load(uint64_t address) noexcept { return *reinterpret_cast<const uint64_t*>(address); }
uint64_t bp_of(const Registers& from, uint32_t at) noexcept { return at == kNowhere ? from.bp : load(from.sp + at); }

// Where the same return addresses and frame pointers lie in the same places, the frames are the same.
bool leads(const Way& way, const Registers& from, uint64_t stack_high) noexcept {
  if (way.from != from.pc || stack_high - from.sp < way.returns[way.count - 1].at + 8) return false;
  for (uint32_t at = 0; at < way.count; at++) {
    const Return& step = way.returns[at];
    if (load(from.sp + step.at) != step.pc || (step.bp != kNowhere && bp_of(from, step.bp_at) != from.sp + step.bp)) return false;
  }
  return true;
}

Registers end_of(const Way& way, const Registers& from) noexcept {
  const Return& last = way.returns[way.count - 1];
  return {.pc = last.pc, .sp = from.sp + last.at + 8, .bp = bp_of(from, way.bp_at), .all = nullptr, .exact = false};
}

// Walks to the driver's function that the program called; where there was none, to the caller of CUPTI.
bool walk(Thread& thread, const Registers& from, Way* way) noexcept {
  Caller callers[kMostFrames];
  uint32_t count = thread.unwinder->callers(from, thread.stack_high, callers, kMostFrames, is_inner);
  if (!count || is_inner(callers[count - 1].pc)) return false;
  bool by_driver = count > 1 && of_driver.has(callers[count - 2].pc);
  *way = {.from = from.pc, .bp_at = kNowhere, .count = by_driver ? count - 1 : count};
  for (uint32_t at = 0; at < way->count; at++) {
    const Caller& caller = callers[at];
    auto place = [&](uint64_t address) { return static_cast<uint32_t>(address - from.sp); };
    way->returns[at] = {.pc = caller.pc, .at = place(caller.sp - 8), .bp_at = way->bp_at, .bp = caller.by_bp ? place(caller.by_bp) : kNowhere};
    if (caller.bp_slot) way->bp_at = place(caller.bp_slot);
  }
  return true;
}

void keep(const Way& way) noexcept {
  if (writing.exchange(true, std::memory_order_acquire)) return;
  uint32_t count = known.load(std::memory_order_relaxed), at = 0;
  while (at < count && !(ways[at] == way)) at++;
  if (at == count && count < kMostWays) {
    ways[count] = way;
    known.store(count + 1, std::memory_order_release);
  }
  writing.store(false, std::memory_order_release);
}

void find(const void* function, Range* range) noexcept {
  modules::Module module{};
  if (!function || !modules::find(reinterpret_cast<uint64_t>(function), &module)) return;
  range->low.store(module.low, std::memory_order_relaxed);
  range->high.store(module.high, std::memory_order_relaxed);
}

}  // namespace

void find_inner_code() noexcept {
  modules::refresh();  // CUPTI may just have come
  find(reinterpret_cast<const void*>(&find_inner_code), &own);
  find(reinterpret_cast<const void*>(cupti().Subscribe), &of_cupti);
  find(driver_function("cuInit"), &of_driver);
}

Registers skip_driver_frames(Thread& thread, const Registers& from) noexcept {
  if (!thread.unwinder || from.sp < thread.stack_low || from.sp >= thread.stack_high || !is_inner(from.pc)) return from;
  uint32_t count = known.load(std::memory_order_acquire);
  static thread_local uint32_t last;
  if (last < count && leads(ways[last], from, thread.stack_high)) return end_of(ways[last], from);
  for (uint32_t at = 0; at < count; at++)
    if (leads(ways[at], from, thread.stack_high)) return end_of(ways[last = at], from);
  if (lost.load(std::memory_order_relaxed) >= kMostLost) return from;
  Way way;
  if (!walk(thread, from, &way)) {
    lost.fetch_add(1, std::memory_order_relaxed);
    return from;
  }
  keep(way);
  return end_of(way, from);
}

}  // namespace aiflame::cuda
