// Two kernels, a function that is inlined into both, and one that both call.
float square(float x) { return x * x; }

__attribute__((noinline)) float slow_part(float x, int times) {
  for (int at = 0; at < times; at++)
    x = x * 0.5f + square(x);
  return x;
}

__kernel void scale(__global float *data, float factor) {
  int at = __builtin_amdgcn_workitem_id_x();
  data[at] = square(data[at]) * factor;
  data[at + 64] = slow_part(data[at + 64], at);
}

__kernel void sum(__global float *data, __global float *result) {
  __local float tile[256];
  int at = __builtin_amdgcn_workitem_id_x();
  tile[at] = square(data[at]);
  __builtin_amdgcn_s_barrier();
  for (int step = 128; step > 0; step /= 2) {
    if (at < step)
      tile[at] += tile[at + step];
    __builtin_amdgcn_s_barrier();
  }
  if (at == 0)
    *result = slow_part(tile[0], 3);
}
