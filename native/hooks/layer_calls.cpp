#include "hooks/layer_calls.hpp"

#include "base/clock.hpp"
#include "base/sys.hpp"
#include "hooks/torch_autograd.hpp"
#include "sampler/threads.hpp"
#include "spool/spool.hpp"
#include "unwind/python_layers.hpp"

namespace aiflame {

constexpr uint32_t kDeepest = 256;

struct LayerCalls {
  uint32_t thread;  // row of the thread that it is for: threads to come get the place of one that has ended
  uint32_t depth;   // also of calls that are too deep to be kept
  struct {
    uint32_t layer, sequence;
    uint64_t begin_ns;
  } calls[kDeepest];
};

namespace layer_calls {

namespace {

// The calls of this thread; nullptr when it is not recorded.
LayerCalls* own(bool make) noexcept {
  Thread* thread = threads::self();
  if (!thread || !thread->row) return nullptr;
  if (!thread->layer_calls && make) thread->layer_calls = static_cast<LayerCalls*>(sys::map_memory(sizeof(LayerCalls)));
  LayerCalls* calls = thread->layer_calls;
  if (calls && calls->thread != thread->row) {
    calls->thread = thread->row;
    calls->depth = 0;
  }
  return calls;
}

}  // namespace

void begin(uint64_t address) noexcept {
  control::Use use;
  LayerCalls* open = control::recording() ? own(true) : nullptr;
  if (!open || open->depth++ >= kDeepest) return;
  open->calls[open->depth - 1] = {.layer = python::layers::row_of(address), .sequence = torch_autograd::next().sequence, .begin_ns = now_ns()};
}

void end() noexcept {
  control::Use use;
  LayerCalls* open = own(false);
  if (!open || open->depth == 0 || --open->depth >= kDeepest) return;
  const auto& call = open->calls[open->depth];
  if (!call.layer || !control::recording()) return;
  auto after = torch_autograd::next();
  spool::append(schema::LayerCall{.thread = open->thread,
                                  .layer = call.layer,
                                  .autograd = after.autograd,
                                  .sequence_begin = call.sequence,
                                  .sequence_end = after.sequence,
                                  .begin_ns = call.begin_ns,
                                  .end_ns = now_ns()});
}

}  // namespace layer_calls

}  // namespace aiflame
