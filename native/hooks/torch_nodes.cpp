#include "hooks/torch_nodes.hpp"

#include "base/clock.hpp"
#include "hooks/late_binding.hpp"
#include "hooks/python_bridge.hpp"
#include "sampler/signals.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"
#include "unwind/python_frames.hpp"

#include <dlfcn.h>
#include <atomic>
#include <cstring>

namespace aiflame::torch_nodes {

namespace {

constexpr const char* kTakeNumber = "_ZN2at15sequence_number17get_and_incrementEv";
uint64_t (*take_number)();
constinit std::atomic<bool> listening{false};

// Row of the module whose call is the innermost on the calling thread, 0: none near. It is near as a rule.
uint32_t innermost_layer() noexcept {
  constexpr size_t kRooms[] = {8, 64};
  PythonFrame frames[64];
  for (size_t room : kRooms) {
    size_t count = python::walk(frames, room);
    for (size_t at = 0; at < count; at++)
      if (frames[at].word >> 60 == static_cast<uint64_t>(schema::FrameKind::LAYER)) return static_cast<uint32_t>(frames[at].word);
    if (count < room - 1) break;  // a layer's word and its frame are kept together
  }
  return 0;
}

// Nodes made one after another in the same call are one row.
void node_made(uint64_t number) noexcept {
  control::Use use;
  Thread* thread = control::recording() ? threads::self() : nullptr;
  if (!thread || !thread->row) return;
  signals::FaultsOpen faults;
  uint64_t time = now_ns();
  uint32_t layer = innermost_layer(), sequence = static_cast<uint32_t>(number);
  NodeRun& run = thread->nodes_made;
  if (run.layer != layer || run.sequence_end != sequence) {
    torch_autograd::finish_nodes(*thread, thread->row);
    if (!layer) return;
    run = {.layer = layer, .sequence_begin = sequence, .begin_ns = time, .autograd = torch_autograd::next().autograd};
  }
  run.sequence_end = sequence + 1;
  run.end_ns = time;
  bridge::poke(time);  // a new layer is named while it is being called
}

uint64_t taken() noexcept {
  uint64_t number = take_number();
  if (listening.load(std::memory_order_relaxed)) node_made(number);
  return number;
}

void* ours(const char* name) noexcept { return strcmp(name, kTakeNumber) == 0 ? reinterpret_cast<void*>(taken) : nullptr; }

}  // namespace

void listen(void* library) noexcept {
  take_number = reinterpret_cast<uint64_t (*)()>(dlsym(library, kTakeNumber));
  if (!take_number) return;
  listening.store(true, std::memory_order_relaxed);
  hooks::lead_callers(kTakeNumber, ours);
}

void launches_tell() noexcept {
  if (listening.load(std::memory_order_relaxed)) listening.store(false, std::memory_order_relaxed);
}

}  // namespace aiflame::torch_nodes
