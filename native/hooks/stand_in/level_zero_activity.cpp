#include "hooks/stand_in/level_zero_activity.hpp"

#include "base/clock.hpp"
#include "base/sys.hpp"
#include "hooks/python/bridge.hpp"
#include "hooks/stand_in/level_zero.hpp"
#include "hooks/stand_in/level_zero_graphs.hpp"
#include "records/kernel_shapes.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace aiflame::level_zero {

namespace {

constexpr auto kApi = schema::GpuApi::LEVEL_ZERO;
constexpr uint64_t kNodes = 1ull << 62;  // numbers of nodes begin here: those of CUDA are small

uint64_t last_correlation = 0, last_node = kNodes;
bool reuses_events = false;  // the program reuses events that count before their commands are done

void write_node(Command& command) noexcept {
  command.node = ++last_node;
  spool::append(schema::GraphNode{.node = command.node,
                                  .thread = command.thread,
                                  .stack = command.stack,
                                  .autograd = command.point.autograd,
                                  .sequence = command.point.sequence,
                                  .time_ns = command.appended_ns});
}

void write_launch(const Command& command, uint32_t thread, uint64_t begin_ns, uint64_t end_ns) noexcept {
  spool::append(schema::Launch{.thread = thread,
                               .stack = command.stack,
                               .api = static_cast<uint16_t>(kApi),
                               .autograd = command.point.autograd,
                               .sequence = command.point.sequence,
                               .begin_ns = begin_ns,
                               .end_ns = end_ns,
                               .correlation = command.correlation});
}

void write_replay(const Caller& caller, uint64_t correlation, uint64_t begin_ns, uint64_t end_ns) noexcept {
  write_launch(Command{.stack = caller.stack, .point = caller.point, .correlation = correlation}, caller.thread, begin_ns, end_ns);
}

uint32_t kernel_name(const Api& api, Handle kernel) noexcept {
  char name[2048] = {};
  size_t bytes = sizeof name - 1;
  if (api.zeKernelGetName(kernel, &bytes, name) != kSuccess) return spool::text("[kernel without a name]");
  return spool::text({name, strnlen(name, sizeof name)});
}

}  // namespace

Appending::Appending(const Api& api, Handle list, Handle event, const Registers& caller) noexcept : api_(api), list_(list), event_(event) {
  Thread* thread = control::recording() ? threads::self() : nullptr;
  if (!thread || !thread->row) return;
  recording_ = present_recording();
  thread_ = thread->row;
  stack_ = capture(*thread, caller);
  point_ = torch_autograd::now();
  {
    Guard guard;
    Object* known = find(Kind::LIST, list);
    known_ = known && known->device;
    if (known_) {
      context_ = known->context;
      Object* theirs = event ? find(Kind::EVENT, event) : nullptr;
      bool captured = chain_of_list(api, *known);
      if (theirs && known->immediate && !captured && !finish_event(api, *theirs) && theirs->counts) reuses_events = true;
      timed_ = theirs && theirs->timestamps;
      // Programs do not reset events within a graph. We reset ours after each replay.
      bool shadow = theirs && known->immediate && (captured || (theirs->counts && reuses_events)) && api.zeCommandListAppendBarrier;
      Handle own = !event || shadow ? take_event(api, context_) : 0;
      if (shadow && own) signal_after_ = event;
      if (own) event_ = own, timed_ = ours_ = true;
    }
  }
  begin_ns_ = now_ns();
}

void Appending::done(bool success, const Work& work) noexcept {
  if (success && signal_after_ && api_.zeCommandListAppendBarrier(list_, signal_after_, 0, nullptr) != kSuccess)
    spool::note("Level Zero: an event of the program could not be signaled; it may wait for it");
  if (!known_) return;
  uint64_t end_ns = now_ns();
  uint32_t name = success && work.kernel ? kernel_name(api_, work.kernel) : 0;
  bool wait = false;
  {
    Guard guard;
    Object* list = find(Kind::LIST, list_);
    Command* command = success && list ? make() : nullptr;
    if (!command) {
      if (ours_ && !success) give_back_event(context_, event_);
      return;
    }
    Chain* graph = chain_of_list(api_, *list);
    *command = Command{.ours = ours_,
                       .listed = !list->immediate || graph,
                       .event = timed_ && (ours_ || !graph) ? event_ : 0,
                       .context = context_,
                       .device = list->device,
                       .recording = recording_,
                       .thread = thread_,
                       .stack = stack_,
                       .stream = list->stream,
                       .point = point_,
                       .correlation = 0,
                       .appended_ns = end_ns,
                       .name = name,
                       .work = work};
    if (!timed_) spool::note("Level Zero: an event that the program made before recording, or shares, has no time stamps; its kernels have none");
    if (graph) {
      push(graph->first, graph->last, *command);
      write_node(*command);
    } else if (command->listed) {
      push(list->first, list->last, *command);
    } else {
      wait = list->synchronous;
      command->correlation = ++last_correlation;
      write_launch(*command, thread_, begin_ns_, end_ns);
      if (timed_)
        fly(*command);
      else
        free_command(*command);
    }
  }
  bridge::poke(end_ns);
  if (wait) collect(api_, Effort::ALL);
}

Caller caller_of(const Registers& registers) noexcept {
  Thread* thread = control::recording() ? threads::self() : nullptr;
  if (!thread || !thread->row) return {};
  return Caller{.thread = thread->row, .stack = capture(*thread, registers), .point = torch_autograd::now()};
}

Executing::Executing(const Api& api, Object* queue, uint32_t count, const Handle* lists, const Caller& caller) noexcept
    : api_(api), count_(count), lists_(lists), caller_(caller) {
  if (!queue || !lists || !caller.thread) {
    count_ = 0;
    return;
  }
  stream_ = queue->stream;
  synchronous_ = queue->synchronous;
  appends_ = queue->immediate;
  for (uint32_t place = 0; place < count; place++) {
    Object* list = find(Kind::LIST, lists[place]);
    for (uint32_t number = list ? list->first : 0; number; number = at(number).next) {
      execute_again(api, at(number));
      if (Object* event = at(number).ours ? nullptr : find(Kind::EVENT, at(number).event)) finish_event(api, *event);
    }
  }
  begin_ns_ = now_ns();
}

void Executing::done(bool success) noexcept {
  if (!success || !count_) return;
  uint64_t end_ns = now_ns(), replay = 0;
  {
    Guard guard;
    for (uint32_t place = 0; place < count_; place++) {
      Object* list = find(Kind::LIST, lists_[place]);
      bool replays = list && (appends_ || list->executed);
      if (list) list->executed = true;
      for (uint32_t number = list ? list->first : 0; number; number = at(number).next) {
        Command& command = at(number);
        if (command.recording != present_recording()) continue;
        if (replays && !replay) write_replay(caller_, replay = ++last_correlation, begin_ns_, end_ns);
        if (replays && !command.node) write_node(command);
        command.correlation = replays ? replay : ++last_correlation;
        command.stream = stream_;
        if (!replays) write_launch(command, caller_.thread, begin_ns_, end_ns);
        if (command.event && !command.flying && (command.ours || find(Kind::EVENT, command.event))) fly(command);
      }
    }
  }
  bridge::poke(end_ns);
  if (synchronous_) collect(api_, Effort::ALL);
}

Replaying::Replaying(const Api& api, Handle list, Handle graph, const Registers& caller) noexcept
    : api_(api), list_(list), graph_(graph), caller_(caller_of(caller)) {
  if (!caller_.thread) return;
  {
    Guard guard;
    Chain* chain = chain_of_executable(graph);
    known_ = chain && find(Kind::LIST, list);
    for (uint32_t number = chain ? chain->first : 0; number; number = at(number).next) execute_again(api, at(number));
  }
  begin_ns_ = now_ns();
}

void Replaying::done(bool success) noexcept {
  if (!success || !known_) return;
  uint64_t end_ns = now_ns();
  bool wait = false;
  {
    Guard guard;
    Object* list = find(Kind::LIST, list_);
    Chain* chain = chain_of_executable(graph_);
    if (!list || !chain) return;
    wait = list->synchronous;
    uint64_t correlation = ++last_correlation;
    write_replay(caller_, correlation, begin_ns_, end_ns);
    for (uint32_t number = chain->first; number; number = at(number).next) {
      Command& command = at(number);
      command.correlation = correlation;
      command.stream = list->stream;
      if (command.event && !command.flying && (command.ours || find(Kind::EVENT, command.event))) fly(command);
    }
    if (wait) all_done(list->stream);
  }
  bridge::poke(end_ns);
  if (wait) collect(api_, Effort::ALL);
}

}  // namespace aiflame::level_zero
