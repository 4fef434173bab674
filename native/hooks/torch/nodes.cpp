#include "hooks/torch/nodes.hpp"

#include "base/clock.hpp"
#include "hooks/python/bridge.hpp"
#include "hooks/shared/late_binding.hpp"
#include "sampler/signals.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"
#include "unwind/python_frames.hpp"

#include <dlfcn.h>
#include <cstring>

namespace aiflame::torch_nodes {

namespace {

constexpr const char* kTakeNumber = "_ZN2at15sequence_number17get_and_incrementEv";
uint64_t (*take_number)();

// Nodes made one after another in the same call are one row.
void node_made(uint64_t number) noexcept {
  control::Use use;
  Thread* thread = control::recording() ? threads::self() : nullptr;
  if (!thread || !thread->row) return;
  signals::FaultsOpen faults;
  uint64_t time = now_ns();
  uint32_t layer = python::innermost_layer(&thread->met), sequence = static_cast<uint32_t>(number);
  NodeRun& run = thread->nodes_made;
  if (run.layer != layer || run.sequence_end != sequence) {
    torch_autograd::finish_nodes(*thread, thread->row);
    if (!layer) return;
    run = {.layer = layer, .sequence_begin = sequence, .begin_ns = time, .autograd = torch_autograd::next().autograd};
    bridge::poke(time);  // a new layer is named while it is being called
  }
  run.sequence_end = sequence + 1;
  run.end_ns = time;
}

uint64_t taken() noexcept {
  uint64_t number = take_number();
  node_made(number);
  return number;
}

void* ours(const char* name) noexcept { return strcmp(name, kTakeNumber) == 0 ? reinterpret_cast<void*>(taken) : nullptr; }

}  // namespace

void listen(void* library) noexcept {
  take_number = reinterpret_cast<uint64_t (*)()>(dlsym(library, kTakeNumber));
  if (!take_number) return;
  hooks::lead_callers(kTakeNumber, ours);
}

}  // namespace aiflame::torch_nodes
