// Facts about functions of HIP that follow from their names.
#pragma once
#include "hooks/stand_in/stand_in.hpp"
#include "hooks/stand_in/watched.hpp"

namespace aiflame::stand_in {

inline constexpr uint32_t kHipNotReady = 600;

// The name without suffixes for the per-thread default stream and for waiting on the host: hipMemcpyAsync_spt → hipMemcpy.
constexpr std::string_view hip_stem(std::string_view name) {
  if (name.ends_with("_spt")) name.remove_suffix(4);
  if (name.ends_with("Async")) name.remove_suffix(5);
  return name;
}

struct HipBytes {
  int8_t at = -1, times = -1;
  uint8_t scale = 1;
};

constexpr HipBytes hip_bytes(std::string_view name) {
  std::string_view stem = hip_stem(name);
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
constexpr bool hip_returns_no_error(std::string_view name) {
  return is_one_of(name, {"hipApiName", "hipCreateChannelDesc", "hipExtGetLastError", "hipGetErrorName", "hipGetErrorString", "hipGetLastError",
                          "hipGetStreamDeviceId", "hipKernelNameRef", "hipKernelNameRefByPtr", "hipPeekAtLastError"});
}

constexpr HipWatch hip_watch(std::string_view name) {
  return name.starts_with("hipGetProcAddress") || name.starts_with("hipGetDriverEntryPoint") ? HipWatch::GIVES_FUNCTION : HipWatch::NONE;
}

constexpr Fact hip_fact(const char* name) {
  HipBytes bytes = hip_bytes(name);
  return {name,       hip_returns_no_error(name) ? Answer::NOTHING : Answer::CODE, static_cast<uint8_t>(hip_watch(name)), bytes.at, bytes.times,
          bytes.scale};
}

}  // namespace aiflame::stand_in
