#include "hooks/rocprofiler/counters.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "hooks/rocprofiler/internal.hpp"
#include "hooks/shared/helper_thread.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>

namespace aiflame::rocprofiler::counters {

namespace {

constexpr uint64_t kEvery = 10'000'000, kPatience = 1'000'000'000;
constexpr uint32_t kMostGpus = 16, kMostCounters = 32, kMostTerms = 3;

enum class Instances : uint8_t { SUM, LARGEST };
enum class Per : uint8_t { DEVICE, UNIT, SIMD };
struct Term {
  const char* counter;  // AMD's name
  double factor;
};
// A metric is a sum of counters, each over all of its instances (channels, dies, shader engines). The formulas are those of FETCH_SIZE, WRITE_SIZE,
// MfmaUtil and OccupancyPercent in AMD's counter_defs.yaml, of ROCm/rocm-systems 1b1610fc, without their divisions by time. SQ's cycles of waves and
// compute units are counted in fours.
struct Metric {
  const char* name;
  Instances instances;
  Per per;
  Term terms[kMostTerms];
};
constexpr Metric kMetrics[] = {
    // MI300 and MI350, whose counter of reads names its half of the fabric; TCC_BUBBLE counts reads of 128 bytes.
    {"dram-read-bytes", Instances::SUM, Per::DEVICE, {{"TCC_EA0_RDREQ", 64}, {"TCC_EA0_RDREQ_32B", -32}, {"TCC_BUBBLE", 64}}},
    {"dram-write-bytes", Instances::SUM, Per::DEVICE, {{"TCC_EA0_WRREQ", 32}, {"TCC_EA0_WRREQ_64B", 32}}},
    // MI200.
    {"dram-read-bytes", Instances::SUM, Per::DEVICE, {{"TCC_EA_RDREQ", 64}, {"TCC_EA_RDREQ_32B", -32}}},
    {"dram-write-bytes", Instances::SUM, Per::DEVICE, {{"TCC_EA_WRREQ", 32}, {"TCC_EA_WRREQ_64B", 32}}},
    {"sm-cycles", Instances::LARGEST, Per::DEVICE, {{"GRBM_COUNT", 1}}},
    {"sm-active-cycles", Instances::SUM, Per::UNIT, {{"SQ_BUSY_CU_CYCLES", 4}}},
    {"tensor-cycles", Instances::SUM, Per::SIMD, {{"SQ_VALU_MFMA_BUSY_CYCLES", 1}}},
    {"warp-cycles", Instances::SUM, Per::UNIT, {{"SQ_WAVE_CYCLES", 4}}},
    {"l2-hits", Instances::SUM, Per::DEVICE, {{"TCC_HIT", 1}}},
    {"l2-misses", Instances::SUM, Per::DEVICE, {{"TCC_MISS", 1}}},
};
constexpr uint32_t kMetricCount = std::size(kMetrics);

struct Gpu {
  Handle agent, context, configuration;
  uint32_t units, simds;
  bool chosen[kMetricCount];
  uint64_t ids[kMetricCount][kMostTerms];
  uint64_t counters[kMostCounters];  // of the configuration
  uint32_t counter_count;
  bool runs;
  uint64_t since_ns;
  double before[kMetricCount];
};
AIFLAME_LARGE constinit Gpu gpus[kMostGpus];
uint32_t gpu_count = 0;
constexpr size_t kMostRecords = 1 << 14;
AIFLAME_LARGE constinit CounterRecord records[kMostRecords];

enum State : uint32_t { OFF, READY, COUNTING, ENDING };
std::atomic<uint32_t> state{OFF};

struct Supported {
  Gpu* gpu;
  bool is_known[kMetricCount][kMostTerms];
};

int32_t on_counters(Handle, const uint64_t* ids, size_t count, void* data) {
  auto& all = *static_cast<Supported*>(data);
  for (size_t at = 0; at < count; at++) {
    CounterInfo info{};
    if (counting()->query_counter_info(ids[at], 1, &info) != kSuccess || !info.name) continue;
    for (uint32_t metric = 0; metric < kMetricCount; metric++)
      for (uint32_t term = 0; term < kMostTerms; term++) {
        const char* name = kMetrics[metric].terms[term].counter;
        if (!name || strcmp(name, info.name) != 0) continue;
        all.gpu->ids[metric][term] = ids[at];
        all.is_known[metric][term] = true;
      }
  }
  return kSuccess;
}

bool is_chosen(const Gpu& gpu, const char* name) noexcept {
  for (uint32_t at = 0; at < kMetricCount; at++)
    if (gpu.chosen[at] && !strcmp(kMetrics[at].name, name)) return true;
  return false;
}

// Only if the GPU counts it together with those before.
void try_metric(Gpu& gpu, const Supported& all, uint32_t metric) noexcept {
  uint32_t count = gpu.counter_count;
  for (uint32_t term = 0; term < kMostTerms && kMetrics[metric].terms[term].counter; term++) {
    if (!all.is_known[metric][term] || count == kMostCounters) return;
    gpu.counters[count++] = gpu.ids[metric][term];
  }
  Handle configuration{};
  if (counting()->create_counter_config(gpu.agent, gpu.counters, count, &configuration) != kSuccess) return;
  gpu.configuration = configuration;
  gpu.counter_count = count;
  gpu.chosen[metric] = true;
}

// rocprofiler asks when the context is started.
void on_start(Handle context, Handle, SetConfiguration set, void* data) { set(context, static_cast<const Gpu*>(data)->configuration); }

bool configure(Gpu& gpu) noexcept {
  Supported all{.gpu = &gpu, .is_known = {}};
  if (counting()->iterate_agent_supported_counters(gpu.agent, on_counters, &all) != kSuccess) return false;
  for (uint32_t metric = 0; metric < kMetricCount; metric++)
    if (!is_chosen(gpu, kMetrics[metric].name)) try_metric(gpu, all, metric);
  return gpu.counter_count && sdk().create_context(&gpu.context) == kSuccess &&
         counting()->configure_device_counting_service(gpu.context, {}, gpu.agent, on_start, &gpu) == kSuccess;
}

// Counts since the context was started. False: they cannot be read.
bool read(const Gpu& gpu, double* values) noexcept {
  size_t count = kMostRecords;
  if (counting()->sample_device_counting_service(gpu.context, 0, 0, records, &count) != kSuccess) return false;
  for (uint32_t metric = 0; metric < kMetricCount; metric++) {
    const Metric& one = kMetrics[metric];
    values[metric] = 0;
    for (size_t at = 0; gpu.chosen[metric] && at < count; at++) {
      uint64_t counter = 0;
      if (counting()->query_record_counter_id(records[at].instance, &counter) != kSuccess) continue;
      for (uint32_t term = 0; term < kMostTerms && one.terms[term].counter; term++) {
        if (gpu.ids[metric][term] != counter) continue;
        double value = records[at].value * one.terms[term].factor;
        values[metric] = one.instances == Instances::SUM ? values[metric] + value : std::max(values[metric], value);
      }
    }
    if (one.per != Per::DEVICE) values[metric] /= std::max(one.per == Per::UNIT ? gpu.units : gpu.simds, 1u);
  }
  return true;
}

void write(Gpu& gpu) noexcept {
  double values[kMetricCount];
  if (!read(gpu, values)) {
    gpu.runs = false;
    return spool::note("AMD: GPU counters are not recorded from here on: rocprofiler could not read them");
  }
  uint64_t now = now_ns();
  control::Use use;
  for (uint32_t at = 0; at < kMetricCount; at++) {
    auto value = static_cast<uint64_t>(std::max(values[at], 0.0) + 0.5), before = static_cast<uint64_t>(gpu.before[at] + 0.5);
    gpu.before[at] = std::max(values[at], 0.0);
    if (gpu.chosen[at] && control::recording())
      spool::append(schema::GpuCounter{.device = device_text(gpu.agent),
                                       .metric = spool::text(kMetrics[at].name, use),
                                       .begin_ns = gpu.since_ns,
                                       .end_ns = now,
                                       .value = value > before ? value - before : 0},
                    use);
  }
  gpu.since_ns = now;
}

void start(Gpu& gpu) noexcept {
  memset(gpu.before, 0, sizeof gpu.before);
  gpu.since_ns = now_ns();
  gpu.runs = gpu.counter_count && sdk().start_context(gpu.context) == kSuccess;
  if (gpu.counter_count && !gpu.runs) spool::note("AMD: GPU counters are not recorded: rocprofiler could not start to count");
}

void* count(void*) noexcept {
  for (uint32_t at = 0; at < gpu_count; at++) start(gpus[at]);
  for (bool last = false; !last;) {
    for (uint64_t begin = now_ns(); state.load(std::memory_order_acquire) == COUNTING && now_ns() - begin < kEvery;) {
      timespec moment{0, 1'000'000};
      sys::call(SYS_nanosleep, reinterpret_cast<long>(&moment), 0);
    }
    last = state.load(std::memory_order_acquire) != COUNTING;
    for (uint32_t at = 0; at < gpu_count; at++)
      if (gpus[at].runs) write(gpus[at]);
  }
  for (uint32_t at = 0; at < gpu_count; at++)
    if (gpus[at].runs) sdk().stop_context(gpus[at].context);
  state.store(READY, std::memory_order_release);
  return nullptr;
}

}  // namespace

void add_agent(const Agent& agent) noexcept {
  if (gpu_count == kMostGpus) return;
  Gpu& gpu = gpus[gpu_count++];
  gpu.agent = agent.id;
  gpu.units = agent.units;
  gpu.simds = agent.simds;
}

bool configure() noexcept {
  if (control::page().gpu_counters != static_cast<uint32_t>(schema::GpuCounters::ON)) return false;
  bool works = false;
  for (uint32_t at = 0; counting() && at < gpu_count; at++) {
    if (configure(gpus[at]))
      works = true;
    else
      gpus[at].counter_count = 0;
  }
  if (!works) spool::note("AMD: GPU counters are not recorded: rocprofiler knows none of those that are wanted on this GPU");
  if (works) state.store(READY, std::memory_order_release);
  return works;
}

void begin() noexcept {
  uint32_t ready = READY;
  if (state.load(std::memory_order_relaxed) != READY || !state.compare_exchange_strong(ready, COUNTING)) return;
  if (!hooks::start_helper_thread(count)) state.store(OFF, std::memory_order_relaxed);
}

void end() noexcept {
  uint32_t counting_now = COUNTING;
  state.compare_exchange_strong(counting_now, ENDING);
  for (uint64_t begun = now_ns(); state.load(std::memory_order_acquire) == ENDING && now_ns() - begun < kPatience;) {
    timespec moment{0, 200'000};
    sys::call(SYS_nanosleep, reinterpret_cast<long>(&moment), 0);
  }
}

}  // namespace aiflame::rocprofiler::counters
