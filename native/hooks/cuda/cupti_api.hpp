// CUPTI, found at run time and never linked: the table of the functions that we call.
#pragma once
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>

#include <cstdint>

#define AIFLAME_CUPTI_FUNCTIONS(F) \
  F(GetVersion)                    \
  F(GetResultString)               \
  F(Subscribe)                     \
  F(Unsubscribe)                   \
  F(EnableCallback)                \
  F(GetCallbackName)               \
  F(GetContextId)                  \
  F(GetDeviceId)                   \
  F(ActivityEnable)                \
  F(ActivityDisable)               \
  F(ActivityRegisterCallbacks)     \
  F(ActivityGetNextRecord)         \
  F(ActivityGetNumDroppedRecords)  \
  F(ActivityFlushAll)
// Functions that some versions lack.
#define AIFLAME_CUPTI_OPTIONAL(F)         \
  F(ActivityRegisterTimestampCallback)    \
  F(GetGraphNodeId)                       \
  F(GetStreamIdEx)                        \
  F(GetCubinCrc)                          \
  F(PCSamplingEnable)                     \
  F(PCSamplingDisable)                    \
  F(PCSamplingGetData)                    \
  F(PCSamplingStart)                      \
  F(PCSamplingStop)                       \
  F(PCSamplingSetConfigurationAttribute)  \
  F(PCSamplingGetConfigurationAttribute)  \
  F(PCSamplingGetNumStallReasons)         \
  F(PCSamplingGetStallReasons)            \
  F(ProfilerInitialize)                   \
  F(DeviceGetChipName)                    \
  F(PmSamplingEnable)                     \
  F(PmSamplingDisable)                    \
  F(PmSamplingSetConfig)                  \
  F(PmSamplingStart)                      \
  F(PmSamplingStop)                       \
  F(PmSamplingDecodeData)                 \
  F(PmSamplingGetCounterAvailability)     \
  F(PmSamplingGetCounterDataSize)         \
  F(PmSamplingCounterDataImageInitialize) \
  F(PmSamplingGetCounterDataInfo)         \
  F(PmSamplingCounterDataGetSampleInfo)   \
  F(ProfilerHostInitialize)               \
  F(ProfilerHostDeinitialize)             \
  F(ProfilerHostConfigAddMetrics)         \
  F(ProfilerHostGetConfigImageSize)       \
  F(ProfilerHostGetConfigImage)           \
  F(ProfilerHostGetNumOfPasses)           \
  F(ProfilerHostEvaluateToGpuValues)

namespace aiflame::cuda {

struct Cupti {
#define AIFLAME_MEMBER(name) decltype(&cupti##name) name;
  AIFLAME_CUPTI_FUNCTIONS(AIFLAME_MEMBER)
  AIFLAME_CUPTI_OPTIONAL(AIFLAME_MEMBER)
#undef AIFLAME_MEMBER
  uint32_t version;  // from cuptiGetVersion: it grows with every release
};

// The functions that load_cupti() found. An optional function that this version lacks is null.
const Cupti& cupti() noexcept;

// Finds CUPTI: the copy in the process, otherwise one beside its CUDA runtime or in its Python packages, otherwise the toolkit's. False if there is
// none, or it is too old; a note says so.
bool load_cupti() noexcept;

// CUPTI's name of an error.
const char* reason(CUptiResult result) noexcept;

// For CUPTI's calls as expressions: false, with one note for each distinct failure, if the result is not CUPTI_SUCCESS.
bool worked(CUptiResult result, const char* what) noexcept;

// Looks up the driver's functions that we call, if the driver is in the process. Only outside of callbacks: other threads may call the driver with
// the loader's lock held, in constructors of libraries, so that a look-up inside a call of the driver may never return.
void find_driver() noexcept;

// A function of the driver, of those that find_driver() knows; nullptr before it has found them. Takes no lock.
void* driver_function(const char* name) noexcept;

}  // namespace aiflame::cuda
