#include "hooks/stand_in/level_zero_api.hpp"

#include "spool/spool.hpp"

#include <atomic>
#include <type_traits>

namespace aiflame::level_zero {

const Api* api(stand_in::Library& library) noexcept {
  static Api found{};
  static std::atomic<int> state{0};  // -1: it lacks something
  int now = state.load(std::memory_order_acquire);
  if (now == 0) {
    // Threads that come at once find the same.
    bool whole = true;
    auto look = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(reinterpret_cast<void*>(library.real(name)));
      whole = whole && function;
    };
#define LOOK(name) look(found.name, #name)
    LOOK(zeDeviceGetProperties);
    LOOK(zeDeviceGetGlobalTimestamps);
    LOOK(zeMemGetAllocProperties);
    LOOK(zeKernelGetName);
    LOOK(zeEventPoolCreate);
    LOOK(zeEventPoolDestroy);
    LOOK(zeEventCreate);
    LOOK(zeEventDestroy);
    LOOK(zeEventQueryStatus);
    LOOK(zeEventQueryKernelTimestamp);
    LOOK(zeEventHostReset);
    bool has_all = whole;
    LOOK(zetModuleGetDebugInfo);
    LOOK(zeCommandListAppendBarrier);
    LOOK(zeCommandListIsGraphCaptureEnabledExt);
    LOOK(zeDevicePciGetPropertiesExt);
    whole = has_all;
#undef LOOK
    if (!whole) spool::note("Level Zero: the loader lacks functions that this needs; calls are recorded without the times of kernels");
    state.store(now = whole ? 1 : -1, std::memory_order_release);
  }
  return now > 0 ? &found : nullptr;
}

}  // namespace aiflame::level_zero
