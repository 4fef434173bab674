// Kernels whose time, or what their warps wait for, is known.
typedef unsigned long long u64;

__device__ __forceinline__ u64 device_ns() {
  u64 ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

__device__ __forceinline__ void spin_for(u64 ns) {
  u64 begin = device_ns();
  while (device_ns() - begin < ns) {
  }
}

// Busy for so many nanoseconds, whatever the clock rate.
extern "C" __global__ void spin(u64 ns) { spin_for(ns); }

// The same work under two names.
extern "C" __global__ void spin_one(u64 ns) { spin_for(ns); }
extern "C" __global__ void spin_two(u64 ns) { spin_for(ns); }

// A ring through memory: each load needs the one before. long_scoreboard.
extern "C" __global__ void make_ring(unsigned* next, unsigned count, unsigned stride) {
  for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) next[at] = (at + stride) % count;
}
extern "C" __global__ void wait_for_memory(const unsigned* next, unsigned steps, unsigned* out) {
  unsigned at = blockIdx.x * 977 + threadIdx.x;
  for (unsigned step = 0; step < steps; step++) at = __ldcg(next + at);
  if (at == ~0u) *out = at;
}

// One warp works, the others of its block have arrived already. barrier.
extern "C" __global__ void wait_at_barrier(unsigned rounds) {
  for (unsigned round = 0; round < rounds; round++) {
    if (threadIdx.x < 32) {
      long long begin = clock64();
      while (clock64() - begin < 5000) {
      }
    }
    __syncthreads();
  }
}

// One warp a scheduler, each operation needs the one before, which takes a fixed number of cycles. wait.
extern "C" __global__ void wait_for_result(unsigned rounds, float* out) {
  float x = threadIdx.x, factor = 0.999f;
  for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
    for (int i = 0; i < 128; i++) x = __fmaf_rn(x, factor, 1.0f);
  }
  if (x == -1.0f) *out = x;
}

// Many warps, all of them with operations ready for a pipe that takes one every other cycle. math_pipe_throttle.
extern "C" __global__ void wait_for_pipe(unsigned rounds, double* out) {
  double x[8];
  for (int i = 0; i < 8; i++) x[i] = threadIdx.x + i;
  for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
    for (int i = 0; i < 128; i++) x[i % 8] = __fma_rn(x[i % 8], 0.999, 1.0);
  }
  double sum = 0;
  for (int i = 0; i < 8; i++) sum += x[i];
  if (sum == -1.0) *out = sum;
}
