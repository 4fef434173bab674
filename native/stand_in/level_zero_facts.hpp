// The actions of the collector at calls of Level Zero's functions.
#pragma once
#include "hooks/stand_in/watched.hpp"
#include "stand_in/entries.hpp"

namespace aiflame::stand_in {

struct Watched {
  std::string_view name;
  ZeWatch watch;
};
constexpr Watched kWatched[] = {
    {"zeDriverGetExtensionFunctionAddress", ZeWatch::GIVES_FUNCTION},
    {"zeEventPoolCreate", ZeWatch::CREATE_POOL},
    {"zeEventPoolDestroy", ZeWatch::DESTROY_POOL},
    {"zeEventPoolGetFlags", ZeWatch::POOL_FLAGS},
    {"zeEventCreate", ZeWatch::CREATE_EVENT},
    {"zeEventCounterBasedCreate", ZeWatch::CREATE_COUNTING_EVENT},
    {"zexCounterBasedEventCreate2", ZeWatch::CREATE_COUNTING_EVENT},
    {"zeEventDestroy", ZeWatch::DESTROY_EVENT},
    {"zeEventHostReset", ZeWatch::RESET_EVENT},
    {"zeCommandListCreate", ZeWatch::CREATE_LIST},
    {"zeCommandListCreateImmediate", ZeWatch::CREATE_IMMEDIATE},
    {"zeCommandListReset", ZeWatch::RESET_LIST},
    {"zeCommandListDestroy", ZeWatch::DESTROY_LIST},
    {"zeCommandQueueCreate", ZeWatch::CREATE_QUEUE},
    {"zeCommandQueueDestroy", ZeWatch::DESTROY_QUEUE},
    {"zeContextDestroy", ZeWatch::DESTROY_CONTEXT},
    {"zeModuleCreate", ZeWatch::CREATE_MODULE},
    {"zeModuleDynamicLink", ZeWatch::LINK_MODULES},
    {"zeModuleDestroy", ZeWatch::DESTROY_MODULE},
    {"zeKernelSetGroupSize", ZeWatch::GROUP_SIZE},
    {"zeKernelDestroy", ZeWatch::DESTROY_KERNEL},
    {"zeCommandListAppendLaunchKernel", ZeWatch::LAUNCH},
    {"zeCommandListAppendLaunchCooperativeKernel", ZeWatch::LAUNCH},
    {"zeCommandListAppendLaunchKernelIndirect", ZeWatch::LAUNCH_INDIRECT},
    {"zeCommandListAppendLaunchKernelWithParameters", ZeWatch::LAUNCH_WITH_PARAMETERS},
    {"zeCommandListAppendLaunchKernelWithArguments", ZeWatch::LAUNCH_WITH_ARGUMENTS},
    {"zeCommandListAppendMemoryCopy", ZeWatch::COPY},
    {"zeCommandListAppendMemoryCopyWithParameters", ZeWatch::COPY_WITH_PARAMETERS},
    {"zeCommandListAppendMemoryCopyRegion", ZeWatch::COPY_REGION},
    {"zeCommandListAppendMemoryCopyFromContext", ZeWatch::COPY_FROM_CONTEXT},
    {"zeCommandListAppendMemoryFill", ZeWatch::FILL},
    {"zeCommandListAppendMemoryFillWithParameters", ZeWatch::FILL_WITH_PARAMETERS},
    {"zeCommandQueueExecuteCommandLists", ZeWatch::EXECUTE},
    {"zeCommandListImmediateAppendCommandListsExp", ZeWatch::APPEND_LISTS},
    {"zeCommandListImmediateAppendCommandListsWithParameters", ZeWatch::APPEND_LISTS_WITH_PARAMETERS},
    {"zeCommandQueueSynchronize", ZeWatch::WAIT_QUEUE},
    {"zeCommandListHostSynchronize", ZeWatch::WAIT_LIST},
    {"zeDeviceSynchronize", ZeWatch::WAIT_DEVICE},
    {"zeEventHostSynchronize", ZeWatch::POLL},
    {"zeEventQueryStatus", ZeWatch::POLL},
    {"zeFenceHostSynchronize", ZeWatch::WAIT},
    {"zeFenceQueryStatus", ZeWatch::POLL},
    {"zeCommandListBeginGraphCaptureExt", ZeWatch::BEGIN_CAPTURE},
    {"zeCommandListBeginGraphCaptureExp", ZeWatch::BEGIN_CAPTURE},
    {"zeCommandListBeginCaptureIntoGraphExt", ZeWatch::BEGIN_CAPTURE_INTO},
    {"zeCommandListBeginCaptureIntoGraphExp", ZeWatch::BEGIN_CAPTURE_INTO},
    {"zeCommandListEndGraphCaptureExt", ZeWatch::END_CAPTURE},
    {"zeCommandListEndGraphCaptureExp", ZeWatch::END_CAPTURE_EXP},
    {"zeGraphInstantiateExt", ZeWatch::INSTANTIATE},
    {"zeCommandListInstantiateGraphExp", ZeWatch::INSTANTIATE_EXP},
    {"zeCommandListAppendGraphExt", ZeWatch::APPEND_GRAPH},
    {"zeCommandListAppendGraphExp", ZeWatch::APPEND_GRAPH},
    {"zeGraphDestroyExt", ZeWatch::DESTROY_GRAPH},
    {"zeGraphDestroyExp", ZeWatch::DESTROY_GRAPH},
    {"zeExecutableGraphDestroyExt", ZeWatch::DESTROY_EXECUTABLE},
    {"zeExecutableGraphDestroyExp", ZeWatch::DESTROY_EXECUTABLE},
};

constexpr ZeWatch watch_of(std::string_view name) {
  for (const Watched& one : kWatched)
    if (one.name == name) return one.watch;
  return ZeWatch::NONE;
}

constexpr int8_t bytes_at(std::string_view name) {
  if (name == "zeCommandListAppendMemoryPrefetch") return 2;
  if (name == "zeCommandListAppendMemoryCopy" || name == "zeCommandListAppendMemoryCopyWithParameters") return 3;
  if (name.starts_with("zeCommandListAppendMemoryFill") || name == "zeCommandListAppendMemoryCopyFromContext") return 4;
  return -1;
}

constexpr Answer answer_of(std::string_view name) {
  if (is_one_of(name, {"zeDriverGetDefaultContext", "zerGetDefaultContext", "zerTranslateIdentifierToDeviceHandle"})) return Answer::OBJECT;
  return name == "zerTranslateDeviceHandleToIdentifier" ? Answer::NOTHING : Answer::CODE;
}

constexpr Fact fact(const char* name) { return {name, answer_of(name), static_cast<uint8_t>(watch_of(name)), bytes_at(name)}; }

inline constexpr uint64_t kUninitialized = 0x78000001;
inline constexpr uint32_t kNotReady = 1;

}  // namespace aiflame::stand_in
