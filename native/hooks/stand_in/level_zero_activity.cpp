#include "hooks/stand_in/level_zero_activity.hpp"

#include "base/clock.hpp"
#include "base/sys.hpp"
#include "hooks/python/bridge.hpp"
#include "hooks/stand_in/level_zero.hpp"
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

struct Command {
  uint32_t next;            // in its list, or the next free one
  uint32_t earlier, later;  // in flight
  bool flying, ours;        // `ours`: the event
  bool listed;              // it may be executed again
  Handle event, context;    // event 0: it has no time stamps
  Device* device;
  uint32_t recording, thread, stack, stream;
  torch_autograd::Point point;
  uint64_t correlation;
  uint32_t name;
  Work work;
};

// Counted from 1; 0 is none.
constexpr uint32_t kCommands = 1 << 17;
Command* commands = nullptr;
uint32_t used = 0, free_ones = 0;
uint32_t oldest = 0, newest = 0;  // in flight
std::atomic<uint32_t> flying_count{0};
uint64_t last_correlation = 0;
bool reuses_events = false;  // the program reuses events that count before their commands are done
std::atomic<uint32_t> recording{1};

Command& at(uint32_t number) noexcept { return commands[number - 1]; }
uint32_t number_of(const Command& command) noexcept { return static_cast<uint32_t>(&command - commands) + 1; }

Command* make() noexcept {
  if (!commands) commands = static_cast<Command*>(sys::map_memory(kCommands * sizeof(Command)));
  if (!commands) return nullptr;
  uint32_t number = free_ones;
  if (number)
    free_ones = at(number).next;
  else if (used < kCommands)
    number = ++used;
  if (!number) {
    spool::note("Level Zero: more than 131072 commands in lists and in flight; some are not recorded");
    return nullptr;
  }
  at(number) = Command{};
  return &at(number);
}

void free_command(Command& command) noexcept {
  command.next = free_ones;
  free_ones = number_of(command);
}

void fly(Command& command) noexcept {
  uint32_t number = number_of(command);
  command.flying = true;
  command.earlier = newest;
  command.later = 0;
  (newest ? at(newest).later : oldest) = number;
  newest = number;
  if (!command.ours)
    if (Object* event = find(Kind::EVENT, command.event)) event->signaled_by = number;
  flying_count.fetch_add(1, std::memory_order_relaxed);
}

void leave_flight(Command& command) noexcept {
  (command.earlier ? at(command.earlier).later : oldest) = command.later;
  (command.later ? at(command.later).earlier : newest) = command.earlier;
  command.flying = false;
  if (!command.ours)
    if (Object* event = find(Kind::EVENT, command.event); event && event->signaled_by == number_of(command)) event->signaled_by = 0;
  flying_count.fetch_sub(1, std::memory_order_relaxed);
}

void write(const Api& api, const Command& command) noexcept {
  control::Use use;
  Timestamps stamps{};
  if (command.recording != recording.load(std::memory_order_relaxed) || !control::recording()) return;
  if (api.zeEventQueryKernelTimestamp(command.event, &stamps) != kSuccess || (!stamps.start && !stamps.end))
    return spool::note("Level Zero: an event gave no time stamps; its command has no device time");
  Clock& clock = command.device->clock;
  clock.read(api);
  if (!clock.known()) return spool::note("Level Zero: a device does not tell its time; its kernels have none");
  const Work& work = command.work;
  uint64_t start_ns = clock.to_monotonic(stamps.start), end_ns = std::max(start_ns, clock.to_monotonic(stamps.end));
  uint32_t device = spool::text(command.device->name, use);
  if (work.kernel)
    spool::append(schema::KernelRecord{.shape = kernel_shapes::row({.name = command.name,
                                                                    .device = device,
                                                                    .api = static_cast<uint32_t>(kApi),
                                                                    .grid_x = work.grid[0],
                                                                    .grid_y = work.grid[1],
                                                                    .grid_z = work.grid[2],
                                                                    .block_x = work.block[0],
                                                                    .block_y = work.block[1],
                                                                    .block_z = work.block[2]}),
                                       .correlation = command.correlation,
                                       .start_ns = start_ns,
                                       .end_ns = end_ns,
                                       .stream = command.stream,
                                       .api = static_cast<uint8_t>(kApi)},
                  use);
  else
    spool::append(schema::CopyRecord{.kind = static_cast<uint32_t>(work.copy),
                                     .device = device,
                                     .api = static_cast<uint32_t>(kApi),
                                     .correlation = command.correlation,
                                     .start_ns = start_ns,
                                     .end_ns = end_ns,
                                     .bytes = work.bytes,
                                     .stream = command.stream},
                  use);
}

// Completes a command in flight. Returns false, and changes nothing, while the command is not done.
bool land(const Api& api, Command& command) noexcept {
  if (api.zeEventQueryStatus(command.event) != kSuccess) return false;
  write(api, command);
  leave_flight(command);
  if (command.ours) {
    bool reset = api.zeEventHostReset(command.event) == kSuccess;
    if (reset && !command.listed) give_back_event(command.context, command.event);
    if (!reset) command.event = 0;
  }
  if (!command.listed) free_command(command);
  return true;
}

// We shall not learn its end: the program may have its event signaled by another command from now on.
void give_up(Command& command) noexcept {
  leave_flight(command);
  if (command.ours) command.event = 0;  // the device may still signal it: nobody may have it any more
  if (!command.listed) free_command(command);
}

bool finish(const Api& api, Command& command) noexcept {
  if (!command.flying || land(api, command)) return true;
  give_up(command);
  return false;
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
  recording_ = recording.load(std::memory_order_relaxed);
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
      if (theirs && known->immediate && !finish_event(api, *theirs) && theirs->counts) reuses_events = true;
      timed_ = theirs && theirs->timestamps;
      bool shadow = theirs && theirs->counts && known->immediate && reuses_events && api.zeCommandListAppendBarrier;
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
    *command = Command{.ours = ours_,
                       .listed = !list->immediate,
                       .event = timed_ ? event_ : 0,
                       .context = context_,
                       .device = list->device,
                       .recording = recording_,
                       .thread = thread_,
                       .stack = stack_,
                       .stream = list->stream,
                       .point = point_,
                       .correlation = 0,
                       .name = name,
                       .work = work};
    if (!timed_) spool::note("Level Zero: an event that the program made before recording, or shares, has no time stamps; its kernels have none");
    if (command->listed) {
      (list->last ? at(list->last).next : list->first) = number_of(*command);
      list->last = number_of(*command);
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

Executing::Executing(const Api& api, Object* queue, uint32_t count, const Handle* lists) noexcept : api_(api), count_(count), lists_(lists) {
  Thread* thread = control::recording() ? threads::self() : nullptr;
  if (!queue || !lists || !thread || !thread->row) {
    count_ = 0;
    return;
  }
  stream_ = queue->stream;
  synchronous_ = queue->synchronous;
  thread_ = thread->row;
  for (uint32_t place = 0; place < count; place++) {
    Object* list = find(Kind::LIST, lists[place]);
    for (uint32_t number = list ? list->first : 0; number; number = at(number).next) {
      finish(api, at(number));
      if (Object* event = at(number).ours ? nullptr : find(Kind::EVENT, at(number).event)) finish_event(api, *event);
    }
  }
  begin_ns_ = now_ns();
}

void Executing::done(bool success) noexcept {
  if (!success || !count_) return;
  uint64_t end_ns = now_ns();
  {
    Guard guard;
    for (uint32_t place = 0; place < count_; place++) {
      Object* list = find(Kind::LIST, lists_[place]);
      for (uint32_t number = list ? list->first : 0; number; number = at(number).next) {
        Command& command = at(number);
        if (command.recording != recording.load(std::memory_order_relaxed)) continue;
        command.correlation = ++last_correlation;
        command.stream = stream_;
        write_launch(command, thread_, begin_ns_, end_ns);
        if (command.event && !command.flying && (command.ours || find(Kind::EVENT, command.event))) fly(command);
      }
    }
  }
  bridge::poke(end_ns);
  if (synchronous_) collect(api_, Effort::ALL);
}

bool in_flight() noexcept { return flying_count.load(std::memory_order_relaxed) != 0; }

void collect(const Api& api, Effort effort) noexcept {
  constexpr uint32_t kSome = 16;
  Guard guard;
  uint32_t waiting = 0;
  for (uint32_t number = oldest, later; number && (effort == Effort::ALL || waiting < kSome); number = later) {
    later = at(number).later;
    if (!land(api, at(number))) waiting++;
  }
}

bool finish_event(const Api& api, Object& event) noexcept { return !event.signaled_by || finish(api, at(event.signaled_by)); }

void forget_commands(const Api& api, Object& list) noexcept {
  for (uint32_t number = list.first, next; number; number = next) {
    Command& command = at(number);
    next = command.next;
    finish(api, command);
    if (command.ours && command.event) give_back_event(command.context, command.event);
    free_command(command);
  }
  list.first = list.last = 0;
}

void forget_context(const Api& api, Handle context) noexcept {
  for (uint32_t number = oldest, later; number; number = later) {
    later = at(number).later;
    if (at(number).context == context) finish(api, at(number));
  }
  end_events(api, context);
}

void forget_rows() noexcept { recording.fetch_add(1, std::memory_order_relaxed); }

void after_fork_child() noexcept {
  forget_objects();
  commands = nullptr;
  used = free_ones = oldest = newest = 0;
  flying_count.store(0, std::memory_order_relaxed);
}

}  // namespace aiflame::level_zero
