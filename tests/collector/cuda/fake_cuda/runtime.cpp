// The runtime's functions, which call the driver's.
#include "driver.hpp"

#include <cupti.h>

#define RUNTIME(name) extern "C" __attribute__((visibility("default"))) cudaError_t CUDARTAPI name
#define CBID(name) CUPTI_RUNTIME_TRACE_CBID_##name, #name

using namespace fake;

namespace {

thread_local cudaError_t last_error = cudaSuccess;

template <class Body>
cudaError_t runtime(uint32_t id, const char* name, const void* parameters, Body body) {
  cudaError_t result = driver::runtime(id, name, parameters, body);
  if (result != cudaSuccess && result != cudaErrorNotReady) last_error = result;
  return result;
}

}  // namespace

RUNTIME(cudaStreamSynchronize)(cudaStream_t stream) {
  cudaStreamSynchronize_v3020_params parameters{stream};
  return runtime(CBID(cudaStreamSynchronize_v3020), &parameters, [&] { return cuStreamSynchronize(stream); });
}

RUNTIME(cudaStreamQuery)(cudaStream_t stream) {
  cudaStreamQuery_v3020_params parameters{stream};
  return runtime(CBID(cudaStreamQuery_v3020), &parameters, [&] { return cuStreamQuery(stream); });
}

RUNTIME(cudaEventSynchronize)(cudaEvent_t event) {
  cudaEventSynchronize_v3020_params parameters{event};
  return runtime(CBID(cudaEventSynchronize_v3020), &parameters, [&] { return cuEventSynchronize(event); });
}

RUNTIME(cudaDeviceSynchronize)() {
  return runtime(CBID(cudaDeviceSynchronize_v3020), nullptr, [] { return cuCtxSynchronize(); });
}

RUNTIME(cudaGetDevice)(int* device) {
  cudaGetDevice_v3020_params parameters{device};
  return runtime(CBID(cudaGetDevice_v3020), &parameters, [&] { return cuCtxGetDevice(device); });
}

// It returns the error of an earlier call.
RUNTIME(cudaGetLastError)() {
  cudaError_t last = driver::runtime(CBID(cudaGetLastError_v3020), nullptr, [] { return static_cast<CUresult>(last_error); });
  last_error = cudaSuccess;
  return last;
}

RUNTIME(cudaMalloc)(void** pointer, size_t size) {
  cudaMalloc_v3020_params parameters{pointer, size};
  return runtime(CBID(cudaMalloc_v3020), &parameters, [&] { return cuMemAlloc(reinterpret_cast<CUdeviceptr*>(pointer), size); });
}

RUNTIME(cudaMemcpyAsync)(void* to, const void* from, size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  cudaMemcpyAsync_v3020_params parameters{to, from, count, kind, stream};
  return runtime(CBID(cudaMemcpyAsync_v3020), &parameters, [&] { return cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to), from, count, stream); });
}

// With a function of the driver's, which the real one takes, too.
RUNTIME(cudaLaunchKernel)(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  cudaLaunchKernel_v7000_params parameters{function, grid, block, arguments, shared, stream};
  auto* known = static_cast<CUfunction>(const_cast<void*>(function));
  return runtime(CBID(cudaLaunchKernel_v7000), &parameters, [&] {
    return cuLaunchKernel(known, grid.x, grid.y, grid.z, block.x, block.y, block.z, static_cast<unsigned>(shared), stream, arguments, nullptr);
  });
}

// A function of a runtime that is newer than the headers.
RUNTIME(cudaNewerThanTheHeaders)() {
  return runtime(CUPTI_RUNTIME_TRACE_CBID_SIZE + kAfterTheLast, "cudaNewerThanTheHeaders_v99010", nullptr, [] { return CUDA_SUCCESS; });
}
