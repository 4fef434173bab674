#include "hooks/cuda/sampling_session.hpp"

#include "base/sys.hpp"
#include "hooks/cuda/refusals.hpp"
#include "spool/spool.hpp"

#include <algorithm>

namespace aiflame::cuda::sampling {

namespace {

// Instructions that one read can bring; memory is touched only as far as it is used.
constexpr size_t kFetched = 16384, kConfigured = 4096;
constexpr size_t kScratchBytes = 8 << 20;

constexpr size_t kCounts = kMostReasons * sizeof(CUpti_PCSamplingStallReason);
constexpr size_t kBytes = 2 * sizeof(CUpti_PCSamplingData) + (kFetched + kConfigured) * (sizeof(CUpti_PCSamplingPCData) + kCounts) + sizeof(Reasons);

// CUPTI walks its records by their size as it knows it: 12.4 (its version 22) added correlationId at the end.
size_t record_bytes() noexcept {
  constexpr uint32_t kWithCorrelation = 22;
  constexpr size_t kBefore = offsetof(CUpti_PCSamplingPCData, correlationId);
  static_assert(kBefore == 56 && sizeof(CUpti_PCSamplingPCData) == 64);
  return cupti().version < kWithCorrelation ? kBefore : sizeof(CUpti_PCSamplingPCData);
}

bool is_there() noexcept {
  const Cupti& api = cupti();
  return api.PCSamplingEnable && api.PCSamplingDisable && api.PCSamplingGetData && api.PCSamplingSetConfigurationAttribute &&
         api.PCSamplingGetNumStallReasons && api.PCSamplingGetStallReasons;
}

bool went_well(CUptiResult result) noexcept {
  if (result != CUPTI_SUCCESS) tell_refused("GPU stalls", result);
  return result == CUPTI_SUCCESS;
}

}  // namespace

bool Session::start(CUcontext context, const Plan& plan) noexcept {
  enabled_ = false;
  if (!is_there()) {
    spool::note("GPU stalls are not recorded: this version of CUPTI cannot sample");
    return false;
  }
  context_ = context;
  CUpti_PCSamplingEnableParams enable{.size = CUpti_PCSamplingEnableParamsSize, .pPriv = nullptr, .ctx = context};
  if (!map() || !went_well(cupti().PCSamplingEnable(&enable))) return false;
  enabled_ = true;
  if (ask_reasons() && configure(plan)) return true;
  stop();
  return false;
}

CUptiResult Session::read() noexcept {
  fetched_->totalSamples = fetched_->droppedSamples = fetched_->nonUsrKernelsTotalSamples = 0;
  fetched_->totalNumPcs = fetched_->remainingNumPcs = 0;
  fetched_->hardwareBufferFull = 0;
  CUpti_PCSamplingGetDataParams params{.size = CUpti_PCSamplingGetDataParamsSize, .pPriv = nullptr, .ctx = context_, .pcSamplingData = fetched_};
  return cupti().PCSamplingGetData(&params);
}

// Samples of before a module was unloaded wait in the configured buffer: they come with the next read.
bool Session::has_more() const noexcept { return fetched_->totalNumPcs && (fetched_->remainingNumPcs || configured_->totalNumPcs); }

bool Session::stop() noexcept {
  CUpti_PCSamplingDisableParams params{.size = CUpti_PCSamplingDisableParamsSize, .pPriv = nullptr, .ctx = context_};
  return worked(cupti().PCSamplingDisable(&params), "ending the sampling of a context");
}

bool Session::map() noexcept {
  if (!memory_) memory_ = static_cast<char*>(sys::map_memory(kBytes));
  if (!memory_) return false;
  stride_ = record_bytes();
  fetched_ = reinterpret_cast<CUpti_PCSamplingData*>(memory_);
  configured_ = fetched_ + 1;
  reasons_ = reinterpret_cast<Reasons*>(configured_ + 1);
  return true;
}

bool Session::ask_reasons() noexcept {
  size_t count = 0;
  CUpti_PCSamplingGetNumStallReasonsParams number{
      .size = CUpti_PCSamplingGetNumStallReasonsParamsSize, .pPriv = nullptr, .ctx = context_, .numStallReasons = &count};
  if (!went_well(cupti().PCSamplingGetNumStallReasons(&number))) return false;
  reasons_->count = static_cast<uint32_t>(std::min<size_t>(count, kMostReasons));
  char* names[kMostReasons];
  for (uint32_t at = 0; at < kMostReasons; at++) names[at] = reasons_->names[at];
  CUpti_PCSamplingGetStallReasonsParams list{.size = CUpti_PCSamplingGetStallReasonsParamsSize,
                                             .pPriv = nullptr,
                                             .ctx = context_,
                                             .numStallReasons = reasons_->count,
                                             .stallReasonIndex = reasons_->index,
                                             .stallReasons = names};
  return went_well(cupti().PCSamplingGetStallReasons(&list));
}

bool Session::configure(const Plan& plan) noexcept {
  char* records = reinterpret_cast<char*>(reasons_ + 1);
  char* counts = records + (kFetched + kConfigured) * sizeof(CUpti_PCSamplingPCData);
  prepare(fetched_, records, counts, kFetched);
  prepare(configured_, records + kFetched * sizeof(CUpti_PCSamplingPCData), counts + kFetched * kCounts, kConfigured);

  CUpti_PCSamplingConfigurationInfo attributes[8] = {};
  size_t count = 0;
  auto set = [&](CUpti_PCSamplingConfigurationAttributeType type) -> auto& {
    attributes[count].attributeType = type;
    return attributes[count++].attributeData;
  };
  set(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE).collectionModeData.collectionMode = CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS;
  set(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON).stallReasonData = {reasons_->count, reasons_->index};
  set(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD).samplingPeriodData.samplingPeriod = plan.period();
  set(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER).samplingDataBufferData.samplingDataBuffer = configured_;
  size_t needed = count;
  set(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_HARDWARE_BUFFER_SIZE).hardwareBufferSizeData.hardwareBufferSize = plan.device_bytes();
  set(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SCRATCH_BUFFER_SIZE).scratchBufferSizeData.scratchBufferSize = kScratchBytes;
  set(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_WORKER_THREAD_PERIODIC_SLEEP_SPAN).workerThreadPeriodicSleepSpanData.workerThreadPeriodicSleepSpan =
      static_cast<uint32_t>(plan.decode_ns() / 1'000'000);
  CUpti_PCSamplingConfigurationInfoParams params{.size = CUpti_PCSamplingConfigurationInfoParamsSize,
                                                 .pPriv = nullptr,
                                                 .ctx = context_,
                                                 .numAttributes = count,
                                                 .pPCSamplingConfigurationInfo = attributes};
  CUptiResult result = cupti().PCSamplingSetConfigurationAttribute(&params);
  if (result == CUPTI_ERROR_INVALID_PARAMETER || result == CUPTI_ERROR_INVALID_OPERATION) {
    // An attribute that this version does not know, or a value it does not like: without those that only make it better.
    params.numAttributes = needed;
    result = cupti().PCSamplingSetConfigurationAttribute(&params);
  }
  return went_well(result);
}

void Session::prepare(CUpti_PCSamplingData* data, char* records, char* counts, size_t instructions) const noexcept {
  *data = {};
  data->size = sizeof *data;
  data->collectNumPcs = instructions;
  data->pPcData = reinterpret_cast<CUpti_PCSamplingPCData*>(records);
  for (size_t at = 0; at < instructions; at++) {
    auto* record = reinterpret_cast<CUpti_PCSamplingPCData*>(records + at * stride_);
    record->size = stride_;
    record->stallReason = reinterpret_cast<CUpti_PCSamplingStallReason*>(counts + at * reasons_->count * sizeof(CUpti_PCSamplingStallReason));
  }
}

void Session::release() noexcept {
  if (memory_) sys::unmap_memory(memory_, kBytes);
  memory_ = nullptr;
}

}  // namespace aiflame::cuda::sampling
