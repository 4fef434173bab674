__device__ __noinline__ float far_away(float x) {
  return x / 3.0f;
}
