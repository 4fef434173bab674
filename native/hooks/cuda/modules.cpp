// Saves device code when it is loaded.
#include "hooks/cuda/internal.hpp"
#include "records/device_code.hpp"
#include "spool/control.hpp"

namespace aiflame::cuda {

void on_module_loaded(const CUpti_ModuleResourceData& module) noexcept {
  if (!control::recording() || !module.pCubin || !module.cubinSize || !cupti().GetCubinCrc) return;
  CUpti_GetCubinCrcParams params{.size = CUpti_GetCubinCrcParamsSize, .cubinSize = module.cubinSize, .cubin = module.pCubin, .cubinCrc = 0};
  if (cupti().GetCubinCrc(&params) != CUPTI_SUCCESS) return;
  device_code::keep(params.cubinCrc, params.cubin, module.cubinSize, "CUDA: device code could not be kept: its kernels have no source lines");
}

}  // namespace aiflame::cuda
