// PM sampling: samples of a device's counters, one each interval. A kernel that runs for d ns reads 3d bytes, writes d, and keeps half of the
// tensor pipe and 16 warps busy; the device runs at 1 GHz. The remainder of a fraction counts for the next sample.
#include "cupti.hpp"

#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>
#include <pthread.h>
#include <algorithm>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace fake::cupti {
namespace {

struct Counter {
  const char* name;
  double idle, busy;  // in each ns without a kernel, and with one
};
constexpr Counter kCounters[] = {
    {"dram__bytes_read.sum", 0, 3},
    {"dram__bytes_write.sum", 0, 1},
    {"sm__cycles_elapsed.avg", 1, 1},
    {"sm__cycles_active.avg", 0, 1},
    {"TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime.avg", 0, 2},
    {"sm__pipe_tensor_cycles_active.avg", 0, 2},
    {"sm__warps_active.avg", 0, 16},
    {"lts__t_bytes.sum", 0, 8},
    {"pcie__read_bytes.sum", 0, 0},
    {"pcie__write_bytes.sum", 0, 0},
    {"smsp__inst_executed.sum", 0, 5},
};
constexpr size_t kInOnePass = 10;
constexpr uint32_t kConfigured = 0xC0FF16u, kImage = 0x1111A6Eu;

const Counter* known(const char* name) {
  for (const Counter& counter : kCounters)
    if (!strcmp(counter.name, name)) return &counter;
  return nullptr;
}

struct Span {
  uint64_t begin, end;
};

struct Sample {
  uint64_t begin, end, busy;
};

// The front of a client's counter data image.
struct Image {
  uint32_t magic, capacity;
  uint64_t count;
  Sample samples[];
};

// The first bytes of a client's configuration.
struct Configuration {
  uint32_t magic, metrics;
};

struct Device {
  bool enabled = false, configured = false, started = false, overflowed = false;
  const Configuration* configuration = nullptr;
  uint64_t interval = 0, next = 0, stopped_at = 0;
  std::vector<Span> kernels{};
};

struct State {
  std::mutex lock;
  bool initialized = false;
  std::map<uint32_t, Device> devices;
};
State& state = *new State;

uint64_t time_of_day() {
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// From the device's clock to that of samples.
uint64_t in_time_of_day(uint64_t time) { return time - driver().now() + time_of_day(); }

Device& device_of(const char* function, CUpti_PmSampling_Object* object) {
  enter(function);
  uint64_t number = reinterpret_cast<uint64_t>(object);
  if (!number || !state.devices[static_cast<uint32_t>(number - 1)].enabled) wrong("%s: counting is not enabled on this device", function);
  return state.devices[static_cast<uint32_t>(number - 1)];
}

Image& image_of(const char* function, uint8_t* bytes) {
  auto* image = reinterpret_cast<Image*>(bytes);
  if (!image || image->magic != kImage) wrong("%s: the image for samples was not initialized", function);
  return *image;
}

uint64_t busy_in(const std::vector<Span>& kernels, uint64_t begin, uint64_t end) {
  uint64_t sum = 0;
  for (const Span& kernel : kernels)
    if (kernel.begin < end && kernel.end > begin) sum += std::min(end, kernel.end) - std::max(begin, kernel.begin);
  return sum;
}

}  // namespace

bool counts(uint32_t device) {
  std::lock_guard guard(state.lock);
  return state.devices[device].configured;
}

void count(const Work& work) {
  if (work.kind != Work::KERNEL || work.end == kNever) return;
  std::lock_guard guard(state.lock);
  Device& device = state.devices[work.context->device];
  if (device.started) device.kernels.push_back({in_time_of_day(work.start), in_time_of_day(work.end)});
}

void forget_counters() {
  std::lock_guard guard(state.lock);
  state.devices.clear();
}

}  // namespace fake::cupti

// The client's handle for the arithmetic.
struct CUpti_Profiler_Host_Object {
  std::vector<const fake::cupti::Counter*> metrics;
};

using namespace fake;
using namespace fake::cupti;

CUPTI_FUNCTION cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params* how) {
  enter("cuptiProfilerInitialize");
  if (how->structSize != CUpti_Profiler_Initialize_Params_STRUCT_SIZE) return CUPTI_ERROR_INVALID_PARAMETER;
  state.initialized = true;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* how) {
  how->pChipName = "FAKE100";
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPmSamplingGetCounterAvailability(CUpti_PmSampling_GetCounterAvailability_Params* how) {
  enter("cuptiPmSamplingGetCounterAvailability");
  if (!state.initialized) wrong("cuptiPmSamplingGetCounterAvailability: cuptiProfilerInitialize comes first");
  if (setting("FAKE_CUPTI_DENIED", 0)) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  if (how->pCounterAvailabilityImage) memset(how->pCounterAvailabilityImage, 1, how->counterAvailabilityImageSize);
  how->counterAvailabilityImageSize = 64;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPmSamplingEnable(CUpti_PmSampling_Enable_Params* how) {
  enter("cuptiPmSamplingEnable");
  std::lock_guard guard(state.lock);
  Device& device = state.devices[static_cast<uint32_t>(how->deviceIndex)];
  if (device.enabled) return CUPTI_ERROR_INVALID_OPERATION;
  device = {.enabled = true};
  how->pPmSamplingObject = reinterpret_cast<CUpti_PmSampling_Object*>(how->deviceIndex + 1);
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPmSamplingSetConfig(CUpti_PmSampling_SetConfig_Params* how) {
  uint32_t number = static_cast<uint32_t>(reinterpret_cast<uint64_t>(how->pPmSamplingObject) - 1);
  if (samples_on(number)) return CUPTI_ERROR_HARDWARE_BUSY;
  std::lock_guard guard(state.lock);
  Device& device = device_of("cuptiPmSamplingSetConfig", how->pPmSamplingObject);
  auto* configuration = reinterpret_cast<const Configuration*>(how->pConfig);
  if (configuration->magic != kConfigured) return CUPTI_ERROR_INVALID_PARAMETER;
  if (how->triggerMode == CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL && setting("FAKE_CUPTI_NO_TIMER", 0)) return CUPTI_ERROR_INVALID_PARAMETER;
  device.configuration = configuration;
  device.interval = how->samplingInterval;
  device.configured = true;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPmSamplingGetCounterDataSize(CUpti_PmSampling_GetCounterDataSize_Params* how) {
  device_of("cuptiPmSamplingGetCounterDataSize", how->pPmSamplingObject);
  how->counterDataSize = sizeof(Image) + how->maxSamples * sizeof(Sample);
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPmSamplingCounterDataImageInitialize(CUpti_PmSampling_CounterDataImage_Initialize_Params* how) {
  device_of("cuptiPmSamplingCounterDataImageInitialize", how->pPmSamplingObject);
  auto* image = reinterpret_cast<Image*>(how->pCounterData);
  *image = {.magic = kImage, .capacity = static_cast<uint32_t>((how->counterDataSize - sizeof(Image)) / sizeof(Sample)), .count = 0};
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPmSamplingStart(CUpti_PmSampling_Start_Params* how) {
  std::lock_guard guard(state.lock);
  Device& device = device_of("cuptiPmSamplingStart", how->pPmSamplingObject);
  if (!device.configured || device.started) return CUPTI_ERROR_INVALID_OPERATION;
  device.started = true;
  device.next = time_of_day();
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPmSamplingStop(CUpti_PmSampling_Stop_Params* how) {
  std::lock_guard guard(state.lock);
  Device& device = device_of("cuptiPmSamplingStop", how->pPmSamplingObject);
  if (!device.started) return CUPTI_ERROR_INVALID_OPERATION;
  device.stopped_at = time_of_day();
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPmSamplingDisable(CUpti_PmSampling_Disable_Params* how) {
  std::lock_guard guard(state.lock);
  device_of("cuptiPmSamplingDisable", how->pPmSamplingObject) = {};
  return CUPTI_SUCCESS;
}

// Samples come 20 ms late, when all kernels that ran in them are known.
CUPTI_FUNCTION cuptiPmSamplingDecodeData(CUpti_PmSampling_DecodeData_Params* how) {
  constexpr uint64_t kLate = 20'000'000;
  std::lock_guard guard(state.lock);
  Device& device = device_of("cuptiPmSamplingDecodeData", how->pPmSamplingObject);
  if (!device.started) return CUPTI_ERROR_INVALID_OPERATION;
  if (device.configuration->magic != kConfigured) wrong("cuptiPmSamplingDecodeData: the configuration is gone");
  Image& image = image_of("cuptiPmSamplingDecodeData", how->pCounterDataImage);
  if (how->counterDataImageSize < sizeof(Image) + image.capacity * sizeof(Sample)) wrong("cuptiPmSamplingDecodeData: the image is too small");
  if (image.count) wrong("cuptiPmSamplingDecodeData: samples that were read are still in the image");
  uint64_t until = device.stopped_at ? device.stopped_at : time_of_day() - kLate;
  auto room = static_cast<uint64_t>(setting("FAKE_CUPTI_BUFFER_SAMPLES", 1 << 20));
  how->overflow = 0;
  if (until > device.next && (until - device.next) / device.interval > room) device.overflowed = true;
  if (device.overflowed) {
    how->overflow = 1;
    how->decodeStopReason = CUPTI_PM_SAMPLING_DECODE_STOP_REASON_OTHER;
    return CUPTI_ERROR_OUT_OF_MEMORY;
  }
  while (device.next + device.interval <= until && image.count < image.capacity) {
    uint64_t end = device.next + device.interval;
    image.samples[image.count++] = {device.next, end, busy_in(device.kernels, device.next, end)};
    device.next = end;
  }
  std::erase_if(device.kernels, [&](const Span& kernel) { return kernel.end <= device.next; });
  how->decodeStopReason =
      image.count == image.capacity ? CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL : CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPmSamplingGetCounterDataInfo(CUpti_PmSampling_GetCounterDataInfo_Params* how) {
  Image& image = image_of("cuptiPmSamplingGetCounterDataInfo", const_cast<uint8_t*>(how->pCounterDataImage));
  how->numTotalSamples = image.capacity;
  how->numPopulatedSamples = how->numCompletedSamples = image.count;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiPmSamplingCounterDataGetSampleInfo(CUpti_PmSampling_CounterData_GetSampleInfo_Params* how) {
  Image& image = image_of("cuptiPmSamplingCounterDataGetSampleInfo", const_cast<uint8_t*>(how->pCounterDataImage));
  if (how->sampleIndex >= image.count) return CUPTI_ERROR_INVALID_PARAMETER;
  how->startTimestamp = image.samples[how->sampleIndex].begin;
  how->endTimestamp = image.samples[how->sampleIndex].end;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params* how) {
  if (strcmp(how->pChipName, "FAKE100") || how->profilerType != CUPTI_PROFILER_TYPE_PM_SAMPLING) return CUPTI_ERROR_INVALID_PARAMETER;
  how->pHostObject = new CUpti_Profiler_Host_Object;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params* how) {
  delete how->pHostObject;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params* how) {
  for (size_t at = 0; at < how->numMetrics; at++)
    if (!known(how->ppMetricNames[at])) return CUPTI_ERROR_INVALID_PARAMETER;
  for (size_t at = 0; at < how->numMetrics; at++) how->pHostObject->metrics.push_back(known(how->ppMetricNames[at]));
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params* how) {
  how->configImageSize = sizeof(Configuration);
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params* how) {
  Configuration made{kConfigured, static_cast<uint32_t>(how->pHostObject->metrics.size())};
  memcpy(how->pConfigImage, &made, sizeof made);
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params* how) {
  size_t metrics = reinterpret_cast<const Configuration*>(how->pConfigImage)->metrics;
  how->numOfPasses = (metrics + kInOnePass - 1) / kInOnePass;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params* how) {
  Image& image = image_of("cuptiProfilerHostEvaluateToGpuValues", const_cast<uint8_t*>(how->pCounterDataImage));
  if (how->rangeIndex >= image.count) return CUPTI_ERROR_INVALID_PARAMETER;
  const Sample& sample = image.samples[how->rangeIndex];
  for (size_t at = 0; at < how->numMetrics; at++) {
    const Counter* counter = known(how->ppMetricNames[at]);
    if (!counter || std::find(how->pHostObject->metrics.begin(), how->pHostObject->metrics.end(), counter) == how->pHostObject->metrics.end())
      return CUPTI_ERROR_INVALID_PARAMETER;
    double idle = static_cast<double>(sample.end - sample.begin - std::min(sample.busy, sample.end - sample.begin));
    how->pMetricValues[at] = counter->idle * idle + counter->busy * static_cast<double>(sample.busy);
  }
  return CUPTI_SUCCESS;
}
