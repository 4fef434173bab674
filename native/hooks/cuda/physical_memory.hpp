// Calls of the driver's virtual memory management → `physical_memory`. CUPTI's records of memory have no kind for it.
#pragma once
#include "hooks/cuda/cupti_api.hpp"

#include <cstdint>

namespace aiflame::cuda::physical_memory {

// True if the call creates, shares, maps or releases physical memory. CUPTI's numbers of calls stay the same in later releases.
inline bool is_call(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API) return false;
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemCreate:
    case CUPTI_DRIVER_TRACE_CBID_cuMemImportFromShareableHandle:
    case CUPTI_DRIVER_TRACE_CBID_cuMemRetainAllocationHandle:
    case CUPTI_DRIVER_TRACE_CBID_cuMemRelease:
    case CUPTI_DRIVER_TRACE_CBID_cuMemMap:
    case CUPTI_DRIVER_TRACE_CBID_cuMemUnmap:
      return true;
    default:
      return false;
  }
}

// The row of a call that returns, if it succeeded.
void write(CUpti_CallbackId id, const CUpti_CallbackData& data, uint64_t begin_ns) noexcept;

}  // namespace aiflame::cuda::physical_memory
