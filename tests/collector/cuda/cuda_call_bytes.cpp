// Calls of CUDA as CUPTI reports them, and the number of bytes that we read from each: a line each.
#include "hooks/cuda/call_bytes.hpp"

#include <cuda.h>
#include <cupti.h>
#include <cstdio>

using namespace aiflame::cuda;

namespace {

template <class Parameters>
void tell(const char* function, const Parameters& parameters, bool succeeded = true) {
  uint8_t number = bytes::find(function);
  printf("%s%s %llu\n", function, succeeded ? "" : ",failed",
         number ? static_cast<unsigned long long>(bytes::asked_for(number, &parameters, succeeded)) : 0);
}
#define TELL(function, ...) tell(#function, function##_params{__VA_ARGS__})

}  // namespace

int main() {
  CUDA_MEMCPY2D rectangle{};
  rectangle.WidthInBytes = 10, rectangle.Height = 4;
  CUDA_MEMCPY3D block{};
  block.WidthInBytes = 10, block.Height = 4, block.Depth = 5;
  CUDA_MEMCPY3D_PEER between{};
  between.WidthInBytes = 10, between.Height = 4, between.Depth = 6;
  TELL(cuMemcpyDtoH_v2, nullptr, 0, 100);
  TELL(cuMemcpyPeerAsync, 0, nullptr, 0, nullptr, 200, nullptr);
  TELL(cuMemcpyAtoA_v2, nullptr, 8, nullptr, 16, 300);
  TELL(cuMemsetD32_v2, 0, 7, 100);
  TELL(cuMemsetD2D16_v2, 0, 1000, 7, 10, 4);
  TELL(cuMemcpy2D_v2, &rectangle);
  TELL(cuMemcpy3DAsync_v2, &block, nullptr);
  TELL(cuMemcpy3DPeer, &between);
  tell("cuMemcpy2D_v2", cuMemcpy2D_v2_params{reinterpret_cast<CUDA_MEMCPY2D*>(1)}, false);
  TELL(cudaMallocPitch_v3020, nullptr, nullptr, 10, 4);
  TELL(cudaMalloc3D_v3020, nullptr, {10, 4, 7});
  TELL(cudaMemcpy2DAsync_v3020, nullptr, 1000, nullptr, 1000, 10, 4);
  TELL(cudaMemset3D_v3020, {nullptr, 1000, 10, 4}, 7, {10, 4, 8});
  TELL(cudaFree_v3020, nullptr);
}
