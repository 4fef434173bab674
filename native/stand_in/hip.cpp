// Stands in for AMD's HIP runtime: libamdhip64.
#include "hooks/stand_in/watched.hpp"
#include "stand_in/entries.hpp"

namespace aiflame::stand_in {

namespace {

// The name without suffixes for the per-thread default stream and for waiting on the host: hipMemcpyAsync_spt → hipMemcpy.
constexpr std::string_view stem_of(std::string_view name) {
  if (name.ends_with("_spt")) name.remove_suffix(4);
  if (name.ends_with("Async")) name.remove_suffix(5);
  return name;
}

struct Bytes {
  int8_t at = -1, times = -1;
  uint8_t scale = 1;
};

constexpr Bytes bytes_of(std::string_view name) {
  std::string_view stem = stem_of(name);
  if (is_one_of(stem, {"hipMemcpy", "hipMemcpyWithStream", "hipMemcpyHtoD", "hipMemcpyDtoH", "hipMemcpyDtoD", "hipMemcpyToSymbol",
                       "hipMemcpyFromSymbol", "hipMemset", "hipMemsetD8"}))
    return {2};
  if (stem == "hipMemsetD16") return {2, -1, 2};
  if (stem == "hipMemsetD32") return {2, -1, 4};
  if (is_one_of(stem, {"hipMemcpyAtoH", "hipMemcpyHtoA", "hipMemcpyAtoD", "hipMemcpyDtoA"})) return {3};
  if (is_one_of(stem, {"hipMemcpyPeer", "hipMemcpyToArray", "hipMemcpyFromArray", "hipMemcpyAtoA"})) return {4};
  if (stem == "hipMemcpy2D") return {4, 5};
  if (is_one_of(stem, {"hipMemcpy2DToArray", "hipMemcpy2DFromArray"})) return {5, 6};
  if (stem == "hipMemset2D") return {3, 4};
  if (name.starts_with("hipMemPrefetchAsync")) return {1};
  return {};
}

// Functions that return a text or a structure, and those that return the error of another call.
constexpr bool tells_nothing(std::string_view name) {
  return is_one_of(name, {"hipApiName", "hipCreateChannelDesc", "hipExtGetLastError", "hipGetErrorName", "hipGetErrorString", "hipGetLastError",
                          "hipGetStreamDeviceId", "hipKernelNameRef", "hipKernelNameRefByPtr", "hipPeekAtLastError"});
}

constexpr HipWatch watch_of(std::string_view name) {
  return name.starts_with("hipGetProcAddress") || name.starts_with("hipGetDriverEntryPoint") ? HipWatch::GIVES_FUNCTION : HipWatch::NONE;
}

constexpr Fact fact(const char* name) {
  Bytes bytes = bytes_of(name);
  return {name, tells_nothing(name) ? Answer::NOTHING : Answer::CODE, static_cast<uint8_t>(watch_of(name)), bytes.at, bytes.times, bytes.scale};
}

constexpr Fact kFacts[] = {
#define NAME(name) fact(#name),
#include "stand_in/hip.inc"
#undef NAME
};
constexpr uint32_t kCount = std::size(kFacts);
static_assert(ordered(kFacts));

constinit calls::Function functions[kCount] = {
#define NAME(name) {schema::CallBackend::HIP, #name},
#include "stand_in/hip.inc"
#undef NAME
};
constinit std::atomic<uint64_t> behind[kCount];

constexpr uint64_t kNotSupported = 801;
constexpr uint32_t kNotReady = 600;

}  // namespace

}  // namespace aiflame::stand_in

using namespace aiflame;
using namespace aiflame::stand_in;

constinit Library aiflame_library{.backend = schema::CallBackend::HIP,
                                  .feature = schema::Feature::TRACE_HIP,
                                  .prefix = "hip",
                                  .file = "libamdhip64",
                                  .unknown = kNotSupported,
                                  .not_ready = kNotReady,
                                  .count = kCount,
                                  .facts = kFacts,
                                  .entries = aiflame_entries,
                                  .functions = functions,
                                  .behind = behind,
                                  .low = 0,
                                  .high = 0};

// The collector finds this library by this name.
extern "C" __attribute__((visibility("default"))) Library* const aiflame_hip = &aiflame_library;

asm(AIFLAME_ENTRIES_BEGIN
#define NAME AIFLAME_ENTRY
#include "stand_in/hip.inc"
#undef NAME
        AIFLAME_ENTRIES_END);
