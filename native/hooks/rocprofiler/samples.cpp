// Samples of program counters → `gpu_windows`, `gpu_samples`. Each carries the numbers of its dispatch and of the call that launched it, so a window
// here has the samples of one dispatch.
#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "hooks/rocprofiler/code_objects.hpp"
#include "hooks/rocprofiler/internal.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>

namespace aiflame::rocprofiler {

namespace {

constexpr size_t kBufferBytes = 1 << 20, kWatermark = 64 << 10;
// AMD's own choices in its examples: 2^20 cycles; host traps are counted in microseconds.
constexpr uint64_t kCyclesLog2 = 20, kTrapInterval = 1000;
constexpr uint32_t kMostAgents = 64;

struct Sampled {
  Handle agent, buffer;
  uint32_t period_log2;  // 0: not in cycles
};
AIFLAME_LARGE constinit Sampled agents[kMostAgents]{};
uint32_t agent_count = 0;

// The names of rocprofiler's numbers, which the reader explains (resolve/device/stall_reasons.py).
constexpr const char* kReasons[] = {
    "none",         "no_instruction_available", "alu_dependency",       "waitcnt",    "internal_instruction",
    "barrier_wait", "arbiter_not_win",          "arbiter_win_ex_stall", "other_wait", "sleep_wait",
};
constexpr uint32_t kUnknownReasons = 16, kIssued = 16, kTrapped = 17, kReasonCount = 18;
std::atomic<uint64_t> reason_rows[kReasonCount];  // the number of the recording, and the row
std::atomic<uint32_t> recording{1};

uint32_t row_of_reason(uint32_t reason) noexcept {
  const char* name = reason == kIssued              ? "selected"
                     : reason == kTrapped           ? "host_trap"
                     : reason < std::size(kReasons) ? kReasons[reason]
                     : reason < kUnknownReasons     ? "a_reason_of_a_later_release"
                                                    : "unknown";
  uint64_t current = recording.load(std::memory_order_relaxed), row = reason_rows[reason].load(std::memory_order_acquire);
  if (row >> 32 == current) return static_cast<uint32_t>(row);
  row = current << 32 | spool::append(schema::StallReason{.index = reason, .name = spool::text(name)});
  reason_rows[reason].store(row, std::memory_order_release);
  return static_cast<uint32_t>(row);
}

struct Sample {
  uint64_t dispatch, correlation, time;
  Place place;
  uint32_t reason;
};

bool before(const Sample& one, const Sample& other) noexcept {
  if (one.dispatch != other.dispatch) return one.dispatch < other.dispatch;
  if (one.correlation != other.correlation) return one.correlation < other.correlation;
  if (one.place.function != other.place.function) return one.place.function < other.place.function;
  if (one.place.offset != other.place.offset) return one.place.offset < other.place.offset;
  return one.reason < other.reason;
}
bool same_window(const Sample& one, const Sample& other) noexcept { return one.dispatch == other.dispatch && one.correlation == other.correlation; }
bool same_row(const Sample& one, const Sample& other) noexcept { return !before(one, other) && !before(other, one); }

// False: the record is no sample.
bool read(const RecordHeader& header, Sample* sample) noexcept {
  if (header.category != kPcSampling || !header.payload) return false;
  if (header.kind == kHostTrapSample) {
    const auto& record = *static_cast<const HostTrapSample*>(header.payload);
    if (record.size < sizeof record) return false;
    *sample = {.dispatch = record.dispatch,
               .correlation = launched_by(record.correlation),
               .time = record.time,
               .place = place_of(record.pc),
               .reason = kTrapped};
    return true;
  }
  if (header.kind != kStochasticSample) return false;
  const auto& record = *static_cast<const StochasticSample*>(header.payload);
  if (record.size < offsetof(StochasticSample, snapshot) + sizeof record.snapshot) return false;
  bool issued = record.issued_and_type & 1;
  *sample = {.dispatch = record.dispatch,
             .correlation = launched_by(record.correlation),
             .time = record.time,
             .place = place_of(record.pc),
             .reason = issued ? kIssued : record.snapshot & 15};
  return true;
}

// Samples of one dispatch, ordered. Those at no known code count as the driver's own.
void write(const Sampled& agent, const Sample* samples, size_t count) noexcept {
  auto [first, last] = std::minmax_element(samples, samples + count, [](const Sample& one, const Sample& other) { return one.time < other.time; });
  size_t foreign = 0;
  while (foreign < count && !samples[foreign].place.function) foreign++;
  uint32_t window = spool::append(schema::GpuWindow{.device = device_text(agent.agent),
                                                    .begin_ns = to_monotonic(first->time),
                                                    .end_ns = to_monotonic(last->time) + 1,
                                                    .samples = count,
                                                    .dropped = 0,
                                                    .foreign = foreign,
                                                    .period_log2 = agent.period_log2,
                                                    .launched_by = samples->correlation});
  if (!window) return;
  for (size_t at = foreign; at < count;) {
    size_t begin = at;
    while (at < count && same_row(samples[begin], samples[at])) at++;
    const Sample& one = samples[begin];
    spool::append(schema::GpuSample{.window = window,
                                    .function = one.place.function,
                                    .offset = one.place.offset,
                                    .reason = row_of_reason(one.reason),
                                    .count = static_cast<uint32_t>(at - begin)});
  }
}

void write_lost(const Sampled& agent, uint64_t lost) noexcept {
  uint64_t now = now_ns();
  spool::append(schema::GpuWindow{.device = device_text(agent.agent),
                                  .begin_ns = now - 1,
                                  .end_ns = now,
                                  .samples = lost,
                                  .dropped = lost,
                                  .foreign = 0,
                                  .period_log2 = agent.period_log2,
                                  .launched_by = 0});
}

void on_samples(Handle, Handle, RecordHeader** headers, size_t count, void* data, uint64_t dropped) {
  if (!collecting()) return;
  control::Use use;
  const Sampled& agent = *static_cast<const Sampled*>(data);
  size_t bytes = count * sizeof(Sample);
  auto* samples = count ? static_cast<Sample*>(sys::map_memory(bytes)) : nullptr;
  size_t filled = 0;
  for (size_t at = 0; samples && at < count; at++) {
    const RecordHeader* header = headers[at];
    if (!header || header->category != kPcSampling) continue;
    if (read(*header, &samples[filled]))
      filled++;
    else
      dropped++;
  }
  if (samples) std::sort(samples, samples + filled, before);
  for (size_t at = 0; at < filled;) {
    size_t begin = at;
    while (at < filled && same_window(samples[begin], samples[at])) at++;
    write(agent, samples + begin, at - begin);
  }
  if (dropped) write_lost(agent, dropped);
  if (samples) sys::unmap_memory(samples, bytes);
}

struct Choice {
  bool any;
  SamplingChoice best;
};

int32_t on_choices(const SamplingChoice* choices, size_t count, void* data) {
  auto& choice = *static_cast<Choice*>(data);
  const char* next = reinterpret_cast<const char*>(choices);
  for (size_t at = 0; at < count; at++) {
    const auto& one = *reinterpret_cast<const SamplingChoice*>(next);
    if (one.size < sizeof one) break;
    next += one.size;
    if (one.method != kStochastic && one.method != kHostTrap) continue;
    if (choice.any && (choice.best.method == kStochastic || one.method != kStochastic)) continue;
    choice = {true, one};
  }
  return kSuccess;
}

uint64_t interval_of(const SamplingChoice& choice) noexcept {
  uint32_t setting = control::page().gpu_sampling;
  uint64_t wanted =
      choice.unit != kCycles ? kTrapInterval : 1ull << (setting > static_cast<uint32_t>(schema::GpuSampling::AUTO) ? setting : kCyclesLog2);
  wanted = std::clamp<uint64_t>(wanted, choice.least, std::max(choice.least, choice.most));
  if (!(choice.flags & kPowerOfTwo)) return wanted;
  uint64_t power = std::bit_floor(wanted);
  return power < choice.least ? power * 2 : power;
}

// Another process may configure the device between our question and our choice: its configuration is the only one then, and we ask again.
int32_t configure(Handle context, Sampled& agent) noexcept {
  constexpr int kTries = 10;
  int32_t status = kNotAvailable;
  for (int at = 0; at < kTries && status == kNotAvailable; at++) {
    Choice choice{};
    status = sdk().query_pc_sampling_agent_configurations(agent.agent, on_choices, &choice);
    if (status != kSuccess) return status;
    if (!choice.any) return kNotAvailable;
    uint64_t interval = interval_of(choice.best);
    agent.period_log2 = choice.best.unit == kCycles ? static_cast<uint32_t>(std::bit_width(interval) - 1) : 0;
    status = sdk().configure_pc_sampling_service(context, agent.agent, choice.best.method, choice.best.unit, interval, agent.buffer, 0);
  }
  return status;
}

void explain(int32_t status) noexcept {
  switch (status) {
    case kNotImplemented:
      return spool::note(
          "AMD: stalls are sampled only where ROCPROFILER_PC_SAMPLING_BETA_ENABLED=on is set; AMD warns that its sampling may hang the machine");
    case kIncompatibleKernel:
      return spool::note("AMD: the amdgpu driver is too old to sample stalls");
    case kNotAvailable:
      return spool::note("AMD: this GPU cannot be sampled, or another process or a debugger samples it");
    default:
      return spool::note("AMD: rocprofiler refused to sample stalls");
  }
}

}  // namespace

void add_agent(const Agent& agent) noexcept {
  if (agent_count < kMostAgents) agents[agent_count++] = {.agent = agent.id, .buffer = {}, .period_log2 = 0};
}

bool configure_sampling(Handle context) noexcept {
  uint32_t kept = 0;
  int32_t refusal = kSuccess;
  for (uint32_t at = 0; at < agent_count; at++) {
    Sampled& agent = agents[at];
    int32_t status = sdk().create_buffer(context, kBufferBytes, kWatermark, kLossless, on_samples, &agent, &agent.buffer);
    if (status == kSuccess) status = configure(context, agent);
    status == kSuccess ? kept++ : refusal = status;
    if (status == kNotImplemented) break;
  }
  if (refusal != kSuccess) explain(refusal);
  return kept != 0;
}

void flush_samples() noexcept {
  for (uint32_t at = 0; at < agent_count; at++)
    if (agents[at].buffer.handle) sdk().flush_buffer(agents[at].buffer);
}

void forget_reasons() noexcept { recording.fetch_add(1, std::memory_order_relaxed); }

}  // namespace aiflame::rocprofiler
