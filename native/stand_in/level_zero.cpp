// Stands in for the loader of Level Zero: libze_loader.
#include "hooks/stand_in/watched.hpp"
#include "stand_in/entries.hpp"

namespace aiflame::stand_in {

namespace {

struct Watched {
  std::string_view name;
  ZeWatch watch;
};
constexpr Watched kWatched[] = {
    {"zeEventPoolCreate", ZeWatch::CREATE_POOL},
    {"zeEventPoolDestroy", ZeWatch::DESTROY_POOL},
    {"zeEventPoolGetFlags", ZeWatch::POOL_FLAGS},
    {"zeEventCreate", ZeWatch::CREATE_EVENT},
    {"zeEventCounterBasedCreate", ZeWatch::CREATE_COUNTING_EVENT},
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
    {"zeCommandQueueSynchronize", ZeWatch::WAIT},
    {"zeCommandListHostSynchronize", ZeWatch::WAIT},
    {"zeDeviceSynchronize", ZeWatch::WAIT},
    {"zeEventHostSynchronize", ZeWatch::POLL},
    {"zeEventQueryStatus", ZeWatch::POLL},
    {"zeFenceHostSynchronize", ZeWatch::WAIT},
    {"zeFenceQueryStatus", ZeWatch::POLL},
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

constexpr Fact kFacts[] = {
#define NAME(name) fact(#name),
#include "stand_in/level_zero.inc"
#undef NAME
};
constexpr uint32_t kCount = std::size(kFacts);
static_assert(ordered(kFacts));

constinit calls::Function functions[kCount] = {
#define NAME(name) {schema::CallBackend::LEVEL_ZERO, #name},
#include "stand_in/level_zero.inc"
#undef NAME
};
constinit std::atomic<uint64_t> behind[kCount];

constexpr uint64_t kUninitialized = 0x78000001;
constexpr uint32_t kNotReady = 1;

}  // namespace

}  // namespace aiflame::stand_in

using namespace aiflame;
using namespace aiflame::stand_in;

constinit Library aiflame_library{.backend = schema::CallBackend::LEVEL_ZERO,
                                  .feature = schema::Feature::TRACE_ZE,
                                  .prefix = "ze",
                                  .file = "libze_loader",
                                  .unknown = kUninitialized,
                                  .not_ready = kNotReady,
                                  .count = kCount,
                                  .facts = kFacts,
                                  .entries = aiflame_entries,
                                  .functions = functions,
                                  .behind = behind,
                                  .low = 0,
                                  .high = 0};

// The collector finds this library by this name.
extern "C" __attribute__((visibility("default"))) Library* const aiflame_level_zero = &aiflame_library;

asm(AIFLAME_ENTRIES_BEGIN
#define NAME AIFLAME_ENTRY
#include "stand_in/level_zero.inc"
#undef NAME
        AIFLAME_ENTRIES_END);
