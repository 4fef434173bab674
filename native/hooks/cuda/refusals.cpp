#include "hooks/cuda/refusals.hpp"

#include "spool/spool.hpp"

#include <cstdio>

namespace aiflame::cuda {

namespace {

// nullptr: CUPTI's own word is all that there is to say.
const char* cause(CUptiResult result) noexcept {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "the NVIDIA driver lets only root read performance counters. To let everybody: "
             "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > /etc/modprobe.d/nvidia-profiling.conf (as root, on the host), and "
             "restart the machine";
    case CUPTI_ERROR_HARDWARE_BUSY:
      return "another profiler holds the GPU's performance counters (DCGM lets go with: dcgmi profiling --pause)";
    case CUPTI_ERROR_NOT_SUPPORTED:
    case CUPTI_ERROR_NOT_COMPATIBLE:
    case CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
    case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
      return "CUPTI cannot sample this kind of device";
    default:
      return nullptr;
  }
}

}  // namespace

void tell_refused(const char* missing, CUptiResult result) noexcept {
  char text[512];
  const char* known = cause(result);
  snprintf(text, sizeof text, "%s are not recorded: %s%s", missing, known ? "" : "CUPTI says: ", known ? known : reason(result));
  spool::note(text);
}

}  // namespace aiflame::cuda
