// OpenCL, as a layer of the ICD loader: OPENCL_LAYERS names our library, and the loader calls clGetLayerInfo and clInitLayer.
//
// Works with every ICD loader that knows layers (Khronos' from 2020 on, ocl-icd from 2.3.0 on) and every driver under it.
#pragma once

namespace aiflame::opencl {

// A new recording begins: launches of the last one refer to tables that no longer exist.
void forget_rows() noexcept;

}  // namespace aiflame::opencl
