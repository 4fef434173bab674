#include "hooks/stand_in/level_zero_commands.hpp"

#include "base/sys.hpp"
#include "hooks/stand_in/level_zero.hpp"
#include "hooks/stand_in/level_zero_graphs.hpp"
#include "records/kernel_shapes.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <atomic>

namespace aiflame::level_zero {

namespace {

constexpr auto kApi = schema::GpuApi::LEVEL_ZERO;

constexpr uint32_t kCommands = 1 << 17;
Command* commands = nullptr;
uint32_t used = 0, free_ones = 0;
uint32_t oldest = 0, newest = 0;  // in flight
std::atomic<uint32_t> flying_count{0};
std::atomic<uint32_t> recording{1};

uint32_t number_of(const Command& command) noexcept { return static_cast<uint32_t>(&command - commands) + 1; }

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
                                       .node = command.node,
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
                                     .node = command.node,
                                     .start_ns = start_ns,
                                     .end_ns = end_ns,
                                     .bytes = work.bytes,
                                     .stream = command.stream},
                  use);
}

// Completes a command in flight. Returns false, and changes nothing, while the command is not done.
bool land(const Api& api, Command& command) noexcept {
  if (command.overlapped || api.zeEventQueryStatus(command.event) != kSuccess) return false;
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
  command.overlapped = false;
  if (command.ours) command.event = 0;  // the device may still signal it: nobody may have it any more
  if (!command.listed) free_command(command);
}

bool finish(const Api& api, Command& command) noexcept {
  if (!command.flying || land(api, command)) return true;
  give_up(command);
  return false;
}

}  // namespace

Command& at(uint32_t number) noexcept { return commands[number - 1]; }

uint32_t present_recording() noexcept { return recording.load(std::memory_order_relaxed); }

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

void execute_again(const Api& api, Command& command) noexcept {
  if (!command.flying || land(api, command)) return;
  if (!command.ours) return give_up(command);
  command.overlapped = true;
  spool::note("Level Zero: a list or a graph was executed again before it was done; then only its last execution before a wait has device times");
}

void push(uint32_t& first, uint32_t& last, Command& command) noexcept {
  (last ? at(last).next : first) = number_of(command);
  last = number_of(command);
}

void all_done(uint32_t stream) noexcept {
  for (uint32_t number = oldest; number; number = at(number).later)
    if (at(number).stream == stream) at(number).overlapped = false;
}

void all_done_on(Handle device) noexcept {
  for (uint32_t number = oldest; number; number = at(number).later)
    if (at(number).device->handle == device) at(number).overlapped = false;
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

void forget_commands(const Api& api, uint32_t& first, uint32_t& last) noexcept {
  for (uint32_t number = first, next; number; number = next) {
    Command& command = at(number);
    next = command.next;
    finish(api, command);
    if (command.ours && command.event) give_back_event(command.context, command.event);
    free_command(command);
  }
  first = last = 0;
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
  forget_chains();
  commands = nullptr;
  used = free_ones = oldest = newest = 0;
  flying_count.store(0, std::memory_order_relaxed);
}

}  // namespace aiflame::level_zero
