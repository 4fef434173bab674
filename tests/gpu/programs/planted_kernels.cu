// Kernels with one fault each, and the same work without it: `near_` is the near miss.
typedef unsigned long long u64;

// Arithmetic alone: as long as its rounds say, for any number of blocks.
__device__ __forceinline__ float calculate(float x, unsigned rounds) {
  float y = x + 1.0f, z = x + 2.0f, w = x + 3.0f;
  for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
    for (int i = 0; i < 32; i++) x = __fmaf_rn(x, 0.999f, 1.0f), y = __fmaf_rn(y, 0.998f, 1.0f), z = __fmaf_rn(z, 0.997f, 1.0f), w = __fmaf_rn(w, 0.996f, 1.0f);
  }
  return x + y + z + w;
}

extern "C" __global__ void __launch_bounds__(1024, 2) count_up(unsigned rounds, float* out) {
  float x = calculate(threadIdx.x, rounds);
  if (x == -1.0f) *out = x;
}

extern "C" __global__ void in_double(unsigned rounds, float* out) {
  double x = threadIdx.x, y = x + 1, z = x + 2, w = x + 3;
  for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
    for (int i = 0; i < 32; i++) x = __fma_rn(x, 0.999, 1.0), y = __fma_rn(y, 0.998, 1.0), z = __fma_rn(z, 0.997, 1.0), w = __fma_rn(w, 0.996, 1.0);
  }
  if (x + y + z + w == -1) *out = 1;
}

// 96 values that live at once, in 32 registers or in as many as it takes.
__device__ __forceinline__ float mix(const float* in, unsigned rounds) {
  float x[96];
#pragma unroll
  for (int i = 0; i < 96; i++) x[i] = in[threadIdx.x + 32 * i];
  for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
    for (int i = 0; i < 96; i++) x[i] = __fmaf_rn(x[i], x[(i + 31) % 96], 1.0f);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 96; i++) sum += x[i];
  return sum;
}
extern "C" __global__ void __launch_bounds__(1024, 2) mix_in_few(const float* in, unsigned rounds, float* out) {
  float x = mix(in, rounds);
  if (x == -1.0f) *out = x;
}
extern "C" __global__ void __launch_bounds__(256, 1) near_mix_in_many(const float* in, unsigned rounds, float* out) {
  float x = mix(in, rounds);
  if (x == -1.0f) *out = x;
}

// A sum: each element by itself, or each block's once.
extern "C" __global__ void add_each(const float* in, unsigned count, float* out) {
  for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) atomicAdd(out, in[at]);
}
extern "C" __global__ void near_add_blocks(const float* in, unsigned count, float* out) {
  float sum = 0;
  for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) sum += in[at];
  for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

// Rows of a tile by columns: 32 threads meet in one bank, or each has its own.
template <int kRow>
__device__ __forceinline__ void read_columns(unsigned rounds, float* out) {
  __shared__ float tile[32 * kRow];
  for (int at = threadIdx.x; at < 32 * kRow; at += blockDim.x) tile[at] = at;
  __syncthreads();
  float sum = 0;
  for (unsigned round = 0; round < rounds; round++) {
#pragma unroll 8
    for (int column = 0; column < 32; column++) {
      float x = ((volatile float*)tile)[threadIdx.x % 32 * kRow + column];
#pragma unroll
      for (int i = 0; i < 12; i++) sum = __fmaf_rn(sum, 0.999f, x);
    }
  }
  if (sum == -1.0f) *out = sum;
}
extern "C" __global__ void by_columns(unsigned rounds, float* out) { read_columns<32>(rounds, out); }
extern "C" __global__ void near_by_columns_padded(unsigned rounds, float* out) { read_columns<33>(rounds, out); }

// The same elements, read by rows or by columns of a matrix with 4,096 of them.
extern "C" __global__ void sum_of_columns_apart(const float* in, unsigned rows, float* out) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (unsigned column = 0; column < 4096; column++) sum += in[(u64)(thread % rows) * 4096 + column];
  out[thread] = sum;
}
extern "C" __global__ void near_sum_of_columns_together(const float* in, unsigned rows, float* out) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (unsigned row = 0; row < 4096; row++) sum += in[(u64)row * rows + thread % rows];
  out[thread] = sum;
}

// Waits for memory: few warps fit, as each block takes 48 KiB; or as many as there can be.
template <int kShared>
__device__ __forceinline__ void walk(const unsigned* next, unsigned mask, unsigned steps, unsigned* out) {
  __shared__ unsigned taken[kShared];
  if (threadIdx.x == 0) taken[blockIdx.x % kShared] = steps;
  unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 9973;
  for (unsigned step = 0; step < steps; step++) at = next[at & mask] + step * 7919;
  if (at == ~0u) *out = taken[at % kShared];
}
extern "C" __global__ void walk_in_small_company(const unsigned* next, unsigned mask, unsigned steps, unsigned* out) {
  walk<12 * 1024 - 64>(next, mask, steps, out);
}
extern "C" __global__ void near_walk_in_company(const unsigned* next, unsigned mask, unsigned steps, unsigned* out) {
  walk<16>(next, mask, steps, out);
}

extern "C" __global__ void add_arrays(const float4* a, const float4* b, float4* c, unsigned count) {
  for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
    float4 x = a[at], y = b[at];
    c[at] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  }
}
