#include "hooks/cuda/counters_session.hpp"

#include "base/clock.hpp"
#include "base/sys.hpp"
#include "hooks/cuda/cuda.hpp"
#include "hooks/cuda/refusals.hpp"
#include "spool/spool.hpp"

#include <ctime>

namespace aiflame::cuda::counters {

namespace {

// Bytes that the device writes into until we read. On an H100 a sample of our counters takes up to 115 KB of them.
constexpr size_t kDeviceBytes = 64 << 20;
// CUPTI clears as much memory as this many samples take at every read: no more than come between two.
constexpr uint32_t kMostSamples = 256;

Image map(size_t size) noexcept { return {static_cast<uint8_t*>(sys::map_memory(size)), size}; }

void unmap(Image& image) noexcept {
  if (image.bytes) sys::unmap_memory(image.bytes, image.size);
  image = {};
}

bool is_there() noexcept {
  const Cupti& api = cupti();
  return api.ProfilerInitialize && api.DeviceGetChipName && api.PmSamplingEnable && api.PmSamplingDisable && api.PmSamplingSetConfig &&
         api.PmSamplingStart && api.PmSamplingStop && api.PmSamplingDecodeData && api.PmSamplingGetCounterAvailability &&
         api.PmSamplingGetCounterDataSize && api.PmSamplingCounterDataImageInitialize && api.PmSamplingGetCounterDataInfo &&
         api.PmSamplingCounterDataGetSampleInfo && api.ProfilerHostInitialize && api.ProfilerHostDeinitialize && api.ProfilerHostConfigAddMetrics &&
         api.ProfilerHostGetConfigImageSize && api.ProfilerHostGetConfigImage && api.ProfilerHostGetNumOfPasses &&
         api.ProfilerHostEvaluateToGpuValues;
}

bool went_well(CUptiResult result) noexcept {
  if (result == CUPTI_SUCCESS) return true;
  tell_refused("GPU counters", result);
  return false;
}

uint64_t distance(uint64_t one, uint64_t other) noexcept { return one > other ? one - other : other - one; }

// The difference from CUPTI's time stamps of samples to our clock: they are the time of day, or the clock that we have set for its records.
// `before`: the answer of the last time, which stays unless the time of day has been set anew.
uint64_t clock_offset(uint64_t time, uint64_t before) noexcept {
  constexpr uint64_t kStep = 1'000'000;
  uint64_t ours = now_ns(), of_day = clock_ns(CLOCK_REALTIME);
  uint64_t offset = distance(time, of_day) < distance(time, ours) ? ours - of_day : 0;
  return distance(offset, before) < kStep ? before : offset;
}

}  // namespace

bool Session::start(uint32_t device, uint64_t interval_ns) noexcept {
  if (!is_there()) {
    spool::note("GPU counters are not recorded: this version of CUPTI cannot; mend it with: pip install -U nvidia-cuda-cupti");
    return false;
  }
  device_ = device;
  device_text_ = device_text(device);
  CUpti_Profiler_Initialize_Params initialize{};
  initialize.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE;
  CUpti_Device_GetChipName_Params chip{};
  chip.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE;
  chip.deviceIndex = device;
  CUpti_PmSampling_GetCounterAvailability_Params available{};
  available.structSize = CUpti_PmSampling_GetCounterAvailability_Params_STRUCT_SIZE;
  available.deviceIndex = device;
  if (!went_well(cupti().ProfilerInitialize(&initialize)) || !went_well(cupti().DeviceGetChipName(&chip)) ||
      !went_well(cupti().PmSamplingGetCounterAvailability(&available)))
    return false;
  chip_ = chip.pChipName;
  availability_ = map(available.counterAvailabilityImageSize);
  available.pCounterAvailabilityImage = availability_.bytes;
  bool known = availability_.bytes && went_well(cupti().PmSamplingGetCounterAvailability(&available)) &&
               choose(chip_, availability_, metrics_, configuration_, host_);
  if (known) {
    for (uint32_t at = 0; at < metrics_.count; at++) {
      vendors_[at] = metrics_.list[at].vendor;
      texts_[at] = spool::text(metrics_.list[at].name);
    }
    CUpti_PmSampling_Enable_Params enable{};
    enable.structSize = CUpti_PmSampling_Enable_Params_STRUCT_SIZE;
    enable.deviceIndex = device;
    if (went_well(cupti().PmSamplingEnable(&enable))) object_ = enable.pPmSamplingObject;
  }
  CUpti_PmSampling_Start_Params start{};
  start.structSize = CUpti_PmSampling_Start_Params_STRUCT_SIZE;
  start.pPmSamplingObject = object_;
  if (object_ && configure(interval_ns) && make_samples() && went_well(cupti().PmSamplingStart(&start))) {
    until_ = 0;
    return true;
  }
  stop();
  return false;
}

bool Session::configure(uint64_t interval_ns) noexcept {
  CUpti_PmSampling_SetConfig_Params config{};
  config.structSize = CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE;
  config.pPmSamplingObject = object_;
  config.configSize = configuration_.size;
  config.pConfig = configuration_.bytes;
  config.hardwareBufferSize = kDeviceBytes;
  config.samplingInterval = interval_ns;
  config.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
  config.hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST;
  CUptiResult result = cupti().PmSamplingSetConfig(&config);
  if (result == CUPTI_ERROR_INVALID_PARAMETER || result == CUPTI_ERROR_NOT_SUPPORTED) {
    // Turing and the A100 cannot count by time: by cycles of their system clock, of 1 to 2 GHz.
    config.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL;
    config.samplingInterval = interval_ns * 3 / 2;
    result = cupti().PmSamplingSetConfig(&config);
  }
  return went_well(result);
}

bool Session::make_samples() noexcept {
  CUpti_PmSampling_GetCounterDataSize_Params size{};
  size.structSize = CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE;
  size.pPmSamplingObject = object_;
  size.pMetricNames = vendors_;
  size.numMetrics = metrics_.count;
  size.maxSamples = kMostSamples;
  if (!went_well(cupti().PmSamplingGetCounterDataSize(&size))) return false;
  samples_ = map(size.counterDataSize);
  return samples_.bytes && clear_samples();
}

bool Session::clear_samples() noexcept {
  CUpti_PmSampling_CounterDataImage_Initialize_Params params{};
  params.structSize = CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE;
  params.pPmSamplingObject = object_;
  params.counterDataSize = samples_.size;
  params.pCounterData = samples_.bytes;
  return went_well(cupti().PmSamplingCounterDataImageInitialize(&params));
}

Session::Read Session::read() noexcept {
  CUpti_PmSampling_DecodeData_Params decode{};
  decode.structSize = CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE;
  decode.pPmSamplingObject = object_;
  decode.pCounterDataImage = samples_.bytes;
  decode.counterDataImageSize = samples_.size;
  CUptiResult result = cupti().PmSamplingDecodeData(&decode);
  bool overflowed = decode.overflow || result == CUPTI_ERROR_OUT_OF_MEMORY;
  if (result != CUPTI_SUCCESS && !overflowed) return went_well(result) ? Read::WHOLE : Read::FAILED;
  CUpti_PmSampling_GetCounterDataInfo_Params info{};
  info.structSize = CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE;
  info.pCounterDataImage = samples_.bytes;
  info.counterDataImageSize = samples_.size;
  if (!went_well(cupti().PmSamplingGetCounterDataInfo(&info))) return Read::FAILED;
  for (size_t sample = 0; sample < info.numCompletedSamples; sample++) write(sample);
  if (info.numPopulatedSamples && !clear_samples()) return Read::FAILED;
  if (overflowed) return Read::OVERFLOWED;
  bool more = decode.decodeStopReason == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL && info.numCompletedSamples;
  return more ? Read::PART : Read::WHOLE;
}

// The first sample reaches back to before counting began, and is left out. A sample may be out of order, or without duration.
void Session::write(size_t sample) noexcept {
  CUpti_PmSampling_CounterData_GetSampleInfo_Params when{};
  when.structSize = CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE;
  when.pPmSamplingObject = object_;
  when.pCounterDataImage = samples_.bytes;
  when.counterDataImageSize = samples_.size;
  when.sampleIndex = sample;
  if (cupti().PmSamplingCounterDataGetSampleInfo(&when) != CUPTI_SUCCESS) return;
  if (when.endTimestamp <= when.startTimestamp || when.startTimestamp < until_) return;
  bool is_first = until_ == 0;
  until_ = when.endTimestamp;
  clock_offset_ = clock_offset(until_, clock_offset_);
  double values[kMostMetrics];
  if (is_first || host_.evaluate(samples_, sample, vendors_, metrics_.count, values) != CUPTI_SUCCESS) return;
  for (uint32_t at = 0; at < metrics_.count; at++) {
    double value = values[at] / metrics_.list[at].divisor;
    if (!(value >= 0 && value < 0x1p63)) continue;
    spool::append(schema::GpuCounter{.device = device_text_,
                                     .metric = texts_[at],
                                     .begin_ns = when.startTimestamp + clock_offset_,
                                     .end_ns = when.endTimestamp + clock_offset_,
                                     .value = static_cast<uint64_t>(value + 0.5)});
  }
}

void Session::stop() noexcept {
  if (object_) {
    CUpti_PmSampling_Stop_Params stop{};
    stop.structSize = CUpti_PmSampling_Stop_Params_STRUCT_SIZE;
    stop.pPmSamplingObject = object_;
    cupti().PmSamplingStop(&stop);
    if (samples_.bytes)
      while (read() == Read::PART) continue;
    CUpti_PmSampling_Disable_Params disable{};
    disable.structSize = CUpti_PmSampling_Disable_Params_STRUCT_SIZE;
    disable.pPmSamplingObject = object_;
    worked(cupti().PmSamplingDisable(&disable), "ending to count on a GPU");
  }
  host_.close();
  release();
}

void Session::abandon() noexcept {
  object_ = nullptr;
  host_ = {};
  availability_ = configuration_ = samples_ = {};
}

void Session::release() noexcept {
  object_ = nullptr;
  host_ = {};
  unmap(availability_);
  unmap(configuration_);
  unmap(samples_);
}

}  // namespace aiflame::cuda::counters
