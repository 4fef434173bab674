#include "hooks/cuda/counters_host.hpp"

#include "base/sys.hpp"

namespace aiflame::cuda::counters {

CUptiResult Host::open(const char* chip, const Image& availability) noexcept {
  CUpti_Profiler_Host_Initialize_Params params{};
  params.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE;
  params.profilerType = CUPTI_PROFILER_TYPE_PM_SAMPLING;
  params.pChipName = chip;
  params.pCounterAvailabilityImage = availability.bytes;
  CUptiResult result = cupti().ProfilerHostInitialize(&params);
  object_ = result == CUPTI_SUCCESS ? params.pHostObject : nullptr;
  return result;
}

void Host::close() noexcept {
  if (!object_) return;
  CUpti_Profiler_Host_Deinitialize_Params params{};
  params.structSize = CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE;
  params.pHostObject = object_;
  cupti().ProfilerHostDeinitialize(&params);
  object_ = nullptr;
}

size_t Host::passes(const char** names, size_t count, Image* configuration) noexcept {
  CUpti_Profiler_Host_ConfigAddMetrics_Params add{};
  add.structSize = CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE;
  add.pHostObject = object_;
  add.ppMetricNames = names;
  add.numMetrics = count;
  CUpti_Profiler_Host_GetConfigImageSize_Params size{};
  size.structSize = CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE;
  size.pHostObject = object_;
  if (!object_ || cupti().ProfilerHostConfigAddMetrics(&add) != CUPTI_SUCCESS || cupti().ProfilerHostGetConfigImageSize(&size) != CUPTI_SUCCESS)
    return 0;
  Image image{static_cast<uint8_t*>(sys::map_memory(size.configImageSize)), size.configImageSize};
  if (!image.bytes) return 0;
  CUpti_Profiler_Host_GetConfigImage_Params get{};
  get.structSize = CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE;
  get.pHostObject = object_;
  get.configImageSize = image.size;
  get.pConfigImage = image.bytes;
  CUpti_Profiler_Host_GetNumOfPasses_Params passes{};
  passes.structSize = CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE;
  passes.configImageSize = image.size;
  passes.pConfigImage = image.bytes;
  bool known = cupti().ProfilerHostGetConfigImage(&get) == CUPTI_SUCCESS && cupti().ProfilerHostGetNumOfPasses(&passes) == CUPTI_SUCCESS;
  if (known && configuration)
    *configuration = image;
  else
    sys::unmap_memory(image.bytes, image.size);
  return known ? passes.numOfPasses : 0;
}

CUptiResult Host::evaluate(const Image& samples, size_t sample, const char** names, size_t count, double* values) noexcept {
  CUpti_Profiler_Host_EvaluateToGpuValues_Params params{};
  params.structSize = CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE;
  params.pHostObject = object_;
  params.pCounterDataImage = samples.bytes;
  params.counterDataImageSize = samples.size;
  params.rangeIndex = sample;
  params.ppMetricNames = names;
  params.numMetrics = count;
  params.pMetricValues = values;
  return cupti().ProfilerHostEvaluateToGpuValues(&params);
}

}  // namespace aiflame::cuda::counters
