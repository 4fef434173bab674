#include "hooks/cuda_way_out.hpp"

#include "hooks/cuda_api.hpp"
#include "sampler/threads.hpp"
#include "unwind/modules.hpp"

#include <atomic>

namespace aiflame::cuda {

namespace {

constexpr uint32_t kMostFrames = 24, kMostWays = 32;
constexpr uint32_t kMostWalks = 4096;
constexpr uint32_t kNowhere = ~0u;

// All places are counted in bytes from the stack pointer that the callback's caller has.
struct Way {
  uint64_t from;   // its pc
  uint32_t bp_at;  // where the rbp at the end was saved, kNowhere: it is the one at the begin
  uint32_t count;
  struct {
    uint64_t pc;
    uint32_t at;
  } returns[kMostFrames];
};

// Written once, then read alone. They stay true: neither library goes while it calls us.
constinit Way ways[kMostWays]{};
constinit std::atomic<uint32_t> known{0};
constinit std::atomic<bool> writing{false};
// Where ways are ever new, or lead nowhere, stacks begin in CUPTI after so many.
constinit std::atomic<uint32_t> walks{0};

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

bool leads(const Way& way, const Registers& from, uint64_t stack_high) noexcept {
  if (way.from != from.pc || stack_high - from.sp < way.returns[way.count - 1].at + 8) return false;
  for (uint32_t at = 0; at < way.count; at++)
    if (load(from.sp + way.returns[at].at) != way.returns[at].pc) return false;
  return true;
}

Registers end_of(const Way& way, const Registers& from) noexcept {
  const auto& last = way.returns[way.count - 1];
  return {
      .pc = last.pc, .sp = from.sp + last.at + 8, .bp = way.bp_at == kNowhere ? from.bp : load(from.sp + way.bp_at), .all = nullptr, .exact = false};
}

bool walk(Thread& thread, const Registers& from, Way* way) noexcept {
  Caller callers[kMostFrames];
  uint32_t count = thread.unwinder->callers(from, thread.stack_high, callers, kMostFrames);
  *way = {.from = from.pc, .bp_at = kNowhere};
  while (way->count < count) {
    const Caller& caller = callers[way->count];
    if (caller.bp_slot) way->bp_at = static_cast<uint32_t>(caller.bp_slot - from.sp);
    way->returns[way->count++] = {.pc = caller.pc, .at = static_cast<uint32_t>(caller.sp - 8 - from.sp)};
    if (!is_inner(caller.pc)) return true;
  }
  return false;
}

void keep(const Way& way) noexcept {
  if (writing.exchange(true, std::memory_order_acquire)) return;
  uint32_t count = known.load(std::memory_order_relaxed);
  if (count < kMostWays) {
    ways[count] = way;
    known.store(count + 1, std::memory_order_release);
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
  if (last < count && leads(ways[last], from, thread.stack_high)) return end_of(ways[last], from);
  for (uint32_t at = 0; at < count; at++)
    if (leads(ways[at], from, thread.stack_high)) return end_of(ways[last = at], from);
  if (walks.load(std::memory_order_relaxed) >= kMostWalks) return from;
  walks.fetch_add(1, std::memory_order_relaxed);
  Way way;
  if (!walk(thread, from, &way)) return from;
  keep(way);
  return end_of(way, from);
}

}  // namespace aiflame::cuda
