// PC sampling: a kernel of d ns at 1 GHz gives d / 2^period samples, which go round kPattern. Exactly: the remainder counts for the next.
#include "cupti.hpp"

#include <pthread.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace fake::cupti {
namespace {

constexpr const char* kReasons[] = {"smsp__pcsamp_sample_buffer_full", "smsp__pcsamp_warps_issue_stalled_long_scoreboard",
                                    "smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued",
                                    "smsp__pcsamp_warps_issue_stalled_math_pipe_throttle", "smsp__pcsamp_warps_issue_stalled_selected"};
constexpr uint32_t kFirstReason = 3;  // their numbers are not their places
constexpr size_t kReasonCount = std::size(kReasons);

// Five of ten samples wait for memory at the same instruction.
struct Place {
  uint32_t offset, reason;
};
constexpr Place kPattern[] = {{0x10, 1}, {0x20, 3}, {0x10, 1}, {0x30, 4}, {0x10, 1}, {0x10, 2}, {0x10, 1}, {0x20, 3}, {0x10, 1}, {0x40, 4}};

// The version from which on a record has the field that is now its last.
constexpr uint32_t kWithCorrelation = 22;

struct Key {
  uint64_t crc;
  std::string function;
  uint32_t offset;
  bool operator==(const Key&) const = default;
  auto operator<=>(const Key&) const = default;
};

using Clock = std::chrono::steady_clock;

struct Counted {
  uint64_t samples = 0, dropped = 0, foreign = 0;
  std::map<Key, std::map<uint32_t, uint32_t>> counts{};
};

struct Sampling {
  bool enabled = false, ended = false, configured = false, started = false, full = false;
  long fetches = 0;
  uint32_t period = 10;
  uint32_t start_stop = 0;
  uint64_t capacity = 1 << 24;
  CUpti_PCSamplingData* buffer = nullptr;
  // The device's, until CUPTI's thread has decoded them.
  Counted taken{}, decoded{};
  std::chrono::milliseconds decoded_every{100};
  Clock::time_point decoded_next = Clock::now() + std::chrono::milliseconds(100);
  std::map<std::string, uint64_t> left_over{}, turns{};
};

struct State {
  std::mutex lock;
  std::unordered_map<Context*, Sampling> contexts;
};
State& state = *new State;

Context* context_of(const char* function, CUcontext handle) {
  enter(function);
  auto* context = reinterpret_cast<Context*>(handle);
  if (!context || !context->alive) wrong("%s: the context is gone", function);
  return context;
}

Sampling& sampling_of(const char* function, CUcontext handle) {
  Sampling& sampling = state.contexts[context_of(function, handle)];
  if (!sampling.enabled) wrong("%s: sampling is not enabled for this context", function);
  return sampling;
}

// With two contexts of a device CUPTI gets into a state in which it records nothing any more.
void must_be_alone(const Context& context) {
  for (const auto& [other, sampling] : state.contexts)
    if (other != &context && other->alive && other->device == context.device && sampling.enabled)
      wrong("cuptiPCSamplingEnable: another context of this device is sampled");
}

// It waits for CUPTI's threads, and they for threads that launch kernels: beside one that is inside a launch it never returns. The time that it
// takes is when another launch would begin.
void must_be_without_launches(const char* function, const Context& context) {
  std::this_thread::sleep_for(std::chrono::milliseconds(setting("FAKE_CUPTI_CHANGE_MS", 3)));
  if (context.launches > 0) wrong("%s: hangs beside threads that launch kernels", function);
}

// A thread of the program's own may capture; one of a tool is not to disturb that.
void must_spare_captures(const char* function) {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  if (!strcmp(name, "aiflame") && driver().may_break_captures()) wrong("%s: breaks captures of streams that are under way", function);
}

// All records share the names, which stay: the allocator reports a client that frees one.
char* shared_name(const std::string& name) {
  static auto& names = *new std::map<std::string, std::vector<char>>;
  auto& text = names[name];
  if (text.empty()) text.assign(name.c_str(), name.c_str() + name.size() + 1);
  return text.data();
}

void decode(Sampling& sampling) {
  Counted& decoded = sampling.decoded;
  decoded.samples += sampling.taken.samples;
  decoded.dropped += sampling.taken.dropped;
  decoded.foreign += sampling.taken.foreign;
  for (auto& [key, reasons] : sampling.taken.counts)
    for (auto [reason, samples] : reasons) decoded.counts[key][reason] += samples;
  sampling.taken = {};
}

// A call after CUPTI's thread was due does the thread's work, before it adds samples that the thread would have decoded.
void decode_when_due(Sampling& sampling) {
  if (Clock::now() < sampling.decoded_next) return;
  decode(sampling);
  sampling.decoded_next = Clock::now() + sampling.decoded_every;
}

void take(Sampling& sampling, CUpti_PCSamplingData& data) {
  Counted& decoded = sampling.decoded;
  data.totalSamples = decoded.samples + decoded.dropped + decoded.foreign;
  data.droppedSamples = decoded.dropped;
  data.nonUsrKernelsTotalSamples = decoded.foreign;
  decoded.samples = decoded.dropped = decoded.foreign = 0;
  data.hardwareBufferFull = 0;
  data.totalNumPcs = std::min(data.collectNumPcs, decoded.counts.size());
  uint32_t version;
  cuptiGetVersion(&version);
  size_t stride = version < kWithCorrelation ? offsetof(CUpti_PCSamplingPCData, correlationId) : sizeof(CUpti_PCSamplingPCData);
  for (size_t at = 0; at < data.totalNumPcs; at++) {
    auto next = decoded.counts.begin();
    auto& pc = *reinterpret_cast<CUpti_PCSamplingPCData*>(reinterpret_cast<char*>(data.pPcData) + at * stride);
    if (pc.size != stride || !pc.stallReason) wrong("a record for samples is not as this version wants it");
    pc.cubinCrc = next->first.crc;
    pc.pcOffset = next->first.offset;
    pc.functionIndex = 0;
    pc.functionName = shared_name(next->first.function);
    pc.stallReasonCount = 0;
    if (version >= kWithCorrelation) pc.correlationId = 0;
    for (auto [reason, samples] : next->second) pc.stallReason[pc.stallReasonCount++] = {kFirstReason + reason, samples};
    decoded.counts.erase(next);
  }
  data.remainingNumPcs = decoded.counts.size();
}

CUptiResult configure(Sampling& sampling, CUpti_PCSamplingConfigurationInfo& info) {
  auto& data = info.attributeData;
  switch (info.attributeType) {
    case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD:
      if (data.samplingPeriodData.samplingPeriod < 5 || data.samplingPeriodData.samplingPeriod > 31) return CUPTI_ERROR_INVALID_OPERATION;
      sampling.period = data.samplingPeriodData.samplingPeriod;
      return CUPTI_SUCCESS;
    case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_HARDWARE_BUFFER_SIZE:
      sampling.capacity =
          static_cast<uint64_t>(setting("FAKE_CUPTI_HARDWARE_SAMPLES", static_cast<long>(data.hardwareBufferSizeData.hardwareBufferSize / 32)));
      return CUPTI_SUCCESS;
    case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL:
      sampling.start_stop = data.enableStartStopControlData.enableStartStopControl;
      return CUPTI_SUCCESS;
    case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER:
      sampling.buffer = static_cast<CUpti_PCSamplingData*>(data.samplingDataBufferData.samplingDataBuffer);
      if (!sampling.buffer || !sampling.buffer->pPcData || !sampling.buffer->collectNumPcs) return CUPTI_ERROR_INVALID_OPERATION;
      return CUPTI_SUCCESS;
    case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE:
      if (data.collectionModeData.collectionMode != CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS) wrong("sampling would serialize kernels");
      return CUPTI_SUCCESS;
    case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON:
    case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SCRATCH_BUFFER_SIZE:
    case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_OUTPUT_DATA_FORMAT:
      return CUPTI_SUCCESS;
    case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_WORKER_THREAD_PERIODIC_SLEEP_SPAN:
      sampling.decoded_every = std::chrono::milliseconds(data.workerThreadPeriodicSleepSpanData.workerThreadPeriodicSleepSpan);
      sampling.decoded_next = Clock::now() + sampling.decoded_every;
      return CUPTI_SUCCESS;
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
}

}  // namespace

uint64_t crc_of(const void* bytes, size_t size) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t at = 0; at < size; at++) hash = (hash ^ static_cast<const uint8_t*>(bytes)[at]) * 0x100000001B3u;
  return hash;
}

void module_loaded(const CUpti_ModuleResourceData&) {}

void sample(const Work& work) {
  if (work.kind != Work::KERNEL || work.end == kNever) return;
  std::lock_guard guard(state.lock);
  auto found = state.contexts.find(work.context);
  if (found == state.contexts.end() || !found->second.enabled || !found->second.configured) return;
  Sampling& sampling = found->second;
  if (sampling.start_stop && !sampling.started) return;
  decode_when_due(sampling);
  uint64_t& left = sampling.left_over[work.function->name];
  left += work.end - work.start;
  uint64_t samples = left >> sampling.period;
  left -= samples << sampling.period;
  sampling.taken.dropped += static_cast<uint64_t>(setting("FAKE_CUPTI_DROPPED_SAMPLES", 0));
  sampling.taken.foreign += static_cast<uint64_t>(setting("FAKE_CUPTI_FOREIGN_SAMPLES", 0));
  if (sampling.taken.samples + samples > sampling.capacity) {
    sampling.full = true;
    return;
  }
  const Module& module = *work.function->module;
  uint64_t crc = crc_of(module.image.data(), module.image.size());
  auto instructions = static_cast<uint64_t>(setting("FAKE_CUPTI_INSTRUCTIONS", 0));
  for (uint64_t at = 0; at < samples; at++) {
    uint64_t turn = sampling.turns[work.function->name]++;
    const Place& place = kPattern[turn % std::size(kPattern)];
    uint32_t offset = instructions ? static_cast<uint32_t>(turn % instructions) * 16 : place.offset;
    sampling.taken.counts[{crc, work.function->name, offset}][place.reason]++;
  }
  sampling.taken.samples += samples;
}

bool samples_on(uint32_t device) {
  std::lock_guard guard(state.lock);
  return std::any_of(state.contexts.begin(), state.contexts.end(),
                     [&](const auto& one) { return one.first->alive && one.first->device == device && one.second.enabled; });
}

void forget_sampling() {
  std::lock_guard guard(state.lock);
  state.contexts.clear();
}

}  // namespace fake::cupti

using namespace fake;
using namespace fake::cupti;

// How many devices are sampled.
CUPTI_FUNCTION fake_cupti_samples() {
  int count = 0;
  for (uint32_t device = 0; device < fake::cupti::driver().devices(); device++) count += samples_on(device);
  return static_cast<CUptiResult>(count);
}

CUPTI_FUNCTION cuptiPCSamplingEnable(CUpti_PCSamplingEnableParams* how) {
  Context* context = context_of("cuptiPCSamplingEnable", how->ctx);
  if (setting("FAKE_CUPTI_DENIED", 0)) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  if (counts(context->device)) wrong("cuptiPCSamplingEnable: the device counts; no more records of kernels would come");
  std::lock_guard guard(state.lock);
  must_be_alone(*context);
  must_be_without_launches("cuptiPCSamplingEnable", *context);
  if (state.contexts[context].enabled) return CUPTI_ERROR_INVALID_OPERATION;
  state.contexts[context] = {.enabled = true};
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPCSamplingDisable(CUpti_PCSamplingDisableParams* how) {
  std::lock_guard guard(state.lock);
  Sampling& sampling = sampling_of("cuptiPCSamplingDisable", how->ctx);
  must_be_without_launches("cuptiPCSamplingDisable", *reinterpret_cast<Context*>(how->ctx));
  decode(sampling);
  if (sampling.buffer) take(sampling, *sampling.buffer);
  sampling = {.ended = true};
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPCSamplingStart(CUpti_PCSamplingStartParams* how) {
  std::lock_guard guard(state.lock);
  Sampling& sampling = sampling_of("cuptiPCSamplingStart", how->ctx);
  if (!sampling.start_stop || sampling.started) return CUPTI_ERROR_INVALID_OPERATION;
  sampling.started = true;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPCSamplingStop(CUpti_PCSamplingStopParams* how) {
  std::lock_guard guard(state.lock);
  Sampling& sampling = sampling_of("cuptiPCSamplingStop", how->ctx);
  if (!sampling.start_stop || !sampling.started) return CUPTI_ERROR_INVALID_OPERATION;
  sampling.started = false;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPCSamplingSetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams* how) {
  std::lock_guard guard(state.lock);
  Sampling& sampling = sampling_of("cuptiPCSamplingSetConfigurationAttribute", how->ctx);
  CUptiResult result = CUPTI_SUCCESS;
  for (size_t at = 0; at < how->numAttributes; at++) {
    CUpti_PCSamplingConfigurationInfo& info = how->pPCSamplingConfigurationInfo[at];
    info.attributeStatus = configure(sampling, info);
    if (info.attributeStatus != CUPTI_SUCCESS) result = info.attributeStatus;
  }
  sampling.configured = sampling.buffer != nullptr;
  return result;
}

CUPTI_FUNCTION cuptiPCSamplingGetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams* how) {
  std::lock_guard guard(state.lock);
  Sampling& sampling = sampling_of("cuptiPCSamplingGetConfigurationAttribute", how->ctx);
  for (size_t at = 0; at < how->numAttributes; at++) {
    CUpti_PCSamplingConfigurationInfo& info = how->pPCSamplingConfigurationInfo[at];
    info.attributeStatus = CUPTI_SUCCESS;
    if (info.attributeType == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD)
      info.attributeData.samplingPeriodData.samplingPeriod = sampling.period;
    if (info.attributeType == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_HARDWARE_BUFFER_SIZE)
      info.attributeData.hardwareBufferSizeData.hardwareBufferSize = sampling.capacity * 32;
  }
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPCSamplingGetNumStallReasons(CUpti_PCSamplingGetNumStallReasonsParams* how) {
  context_of("cuptiPCSamplingGetNumStallReasons", how->ctx);
  *how->numStallReasons = kReasonCount;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPCSamplingGetStallReasons(CUpti_PCSamplingGetStallReasonsParams* how) {
  context_of("cuptiPCSamplingGetStallReasons", how->ctx);
  for (size_t at = 0; at < std::min(how->numStallReasons, kReasonCount); at++) {
    how->stallReasonIndex[at] = kFirstReason + static_cast<uint32_t>(at);
    snprintf(how->stallReasons[at], CUPTI_STALL_REASON_STRING_SIZE, "%s", kReasons[at]);
  }
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPCSamplingGetData(CUpti_PCSamplingGetDataParams* how) {
  // As if it waited for a lock of the driver; the context may go in that time.
  Context* context = context_of("cuptiPCSamplingGetData", how->ctx);
  must_spare_captures("cuptiPCSamplingGetData");
  if (long ms = setting("FAKE_CUPTI_SLOW_MS", 0)) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  if (!context->alive) return CUPTI_ERROR_INVALID_CONTEXT;
  std::lock_guard guard(state.lock);
  Sampling& sampling = sampling_of("cuptiPCSamplingGetData", how->ctx);
  auto& data = *static_cast<CUpti_PCSamplingData*>(how->pcSamplingData);
  if (&data == sampling.buffer) wrong("cuptiPCSamplingGetData: threads of CUPTI write into the configured buffer");
  long fetch = ++sampling.fetches;
  if (fetch == setting("FAKE_CUPTI_NOT_READY", 0)) return CUPTI_ERROR_NOT_READY;
  if (fetch == setting("FAKE_CUPTI_FAILS", 0)) {
    end_itself();
    return CUPTI_ERROR_UNKNOWN;
  }
  if (sampling.full) {
    data.totalNumPcs = data.remainingNumPcs = 0;
    data.totalSamples = data.droppedSamples = data.nonUsrKernelsTotalSamples = 0;
    data.hardwareBufferFull = 1;
    sampling.taken = sampling.decoded = {};
    sampling.full = setting("FAKE_CUPTI_STAYS_FULL", 0) != 0;
    return CUPTI_ERROR_OUT_OF_MEMORY;
  }
  decode_when_due(sampling);
  take(sampling, data);
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiGetCubinCrc(CUpti_GetCubinCrcParams* how) {
  if (!how->cubin || !how->cubinSize) return CUPTI_ERROR_INVALID_PARAMETER;
  how->cubinCrc = crc_of(how->cubin, how->cubinSize);
  return CUPTI_SUCCESS;
}
