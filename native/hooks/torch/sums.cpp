#include "hooks/torch/sums.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/safe_load.hpp"
#include "hooks/shared/late_binding.hpp"
#include "sampler/signals.hpp"
#include "sampler/threads.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <dlfcn.h>
#include <atomic>
#include <cstring>

namespace aiflame::torch_sums {

namespace {

using torch_autograd::Point;

// torch::autograd::InputBuffer::add(this, position, variable, streams …): pointers and numbers all, four or five of them after `this`.
// Where a version lacks a parameter, nobody reads its register.
using Add = void (*)(uint64_t buffer, uint64_t position, uint64_t variable, uint64_t stream, uint64_t other_stream, uint64_t node);
constexpr const char* kAdd = "_ZN5torch8autograd11InputBuffer3addEmON2at6TensorERKSt8optionalIN3c106StreamEESA_";
constexpr const char* kEndings[] = {"", "PNS0_4NodeE"};  // further parameters; more would lie on the stack, which is not handed on
constexpr const char* kUndefined = "_ZN3c1019UndefinedTensorImpl10_singletonE";
Add add;
void* libtorch;
uint64_t undefined;  // the pointer in a tensor that holds nothing

// The node that gave the first gradient, by where the gradient is kept: a part of the place's hash, and the node's numbers (48 bits:
// torch_autograd::packed). The newest stands first. Most places never get a second gradient, and autograd does not say so: they go when
// newer ones come, which is soon enough for a place that waits for a whole layer.
constexpr uint32_t kSetBits = 9, kTagBits = 16;
struct alignas(64) Set {
  std::atomic<uint64_t> givers[8];
};
AIFLAME_LARGE constinit Set sets[1 << kSetBits];

struct Place {
  Set* set;
  uint64_t tag;
};

Place place_of(uint64_t slot) noexcept {
  uint64_t hash = (slot >> 3) * 0x9e3779b97f4a7c15ull;
  return {&sets[hash >> (64 - kSetBits)], hash << kSetBits >> (64 - kTagBits) << 48};
}

bool is_of(uint64_t giver, uint64_t tag) noexcept { return (giver ^ tag) >> 48 == 0; }

void remember(const Place& place, uint64_t node) noexcept {
  uint64_t newer = place.tag | node;
  for (auto& giver : place.set->givers) {
    uint64_t here = giver.load(std::memory_order_relaxed);
    giver.store(newer, std::memory_order_relaxed);
    if (!here || is_of(here, place.tag)) return;
    newer = here;
  }
}

// 0: not known.
uint64_t first_at(const Place& place) noexcept {
  for (auto& giver : place.set->givers)
    if (uint64_t here = giver.load(std::memory_order_relaxed); here && is_of(here, place.tag)) return here & ~0ull >> kTagBits;
  return 0;
}

// A sum that is about to be made.
struct Sum {
  uint64_t first, last;  // packed; first 0: it is no sum, or the node that gave the first gradient is not known
  uint64_t begin_ns;
};

// A buffer begins with its vector of tensors, each of which is a pointer.
Sum given(uint64_t buffer, uint64_t position, uint64_t variable) noexcept {
  signals::FaultsOpen faults;
  uint64_t slot = safe_load(buffer) + 8 * position;
  if (safe_load(variable, undefined) == undefined) return {};
  Point point = torch_autograd::now();
  if (!point.is_backward()) return {};
  Place place = place_of(slot);
  uint64_t last = torch_autograd::packed(point);
  if (safe_load(slot, undefined) == undefined) {
    remember(place, last);
    return {};
  }
  uint64_t first = first_at(place);
  // Only numbers of one thread can be compared, and two gradients from one node are that node's own sum.
  if (first >> 32 != last >> 32 || first == last) return {};
  return {first, last, now_ns()};
}

void made(const Sum& sum) noexcept {
  control::Use use;
  Thread* thread = control::recording() ? threads::self() : nullptr;
  if (!thread || !thread->row) return;
  spool::append(schema::GradientSum{.thread = thread->row,
                                    .autograd = static_cast<uint16_t>(sum.last >> 32),
                                    .first = static_cast<uint32_t>(sum.first),
                                    .last = static_cast<uint32_t>(sum.last),
                                    .begin_ns = sum.begin_ns,
                                    .end_ns = now_ns()});
}

// The real one may throw: nothing here is in need of an end.
void added(uint64_t buffer, uint64_t position, uint64_t variable, uint64_t stream, uint64_t other_stream, uint64_t node) {
  Sum sum = control::recording() ? given(buffer, position, variable) : Sum{};
  add(buffer, position, variable, stream, other_stream, node);
  if (sum.first) made(sum);
}

void* ours(const char* name) noexcept {
  bool is_known = false;
  for (const char* ending : kEndings) is_known |= strcmp(name + strlen(kAdd), ending) == 0;
  if (!is_known) return nullptr;
  if (!add) add = reinterpret_cast<Add>(dlsym(libtorch, name));
  return add ? reinterpret_cast<void*>(added) : nullptr;
}

}  // namespace

void listen(void* library) noexcept {
  libtorch = library;
  undefined = reinterpret_cast<uint64_t>(dlsym(library, kUndefined));
  if (undefined) hooks::lead_callers(kAdd, ours);
}

}  // namespace aiflame::torch_sums
