template <typename T> __device__ __forceinline__ T square(T x) {
  return x * x;
}

__device__ __noinline__ float slow_part(float x, int n) {
  for (int i = 0; i < n; i++) {
    x = x * 1.5f + square(x);
  }
  return x;
}

__device__ __forceinline__ float norm(const float *v) {
  float sum = square(v[0]);
  sum += square(v[1]);
  return rsqrtf(sum);
}

template <typename T, int N> __global__ void scale(T *data, int n) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) {
    data[at] = norm(data + at) * N;
  }
}

extern "C" __global__ void outer(float *data, int n) {
  __shared__ float tile[128];
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = slow_part(tile[127 - threadIdx.x], n);
}

template __global__ void scale<float, 4>(float *, int);
