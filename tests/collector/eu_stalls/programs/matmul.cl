// A matrix multiplication whose inner loop is a function of its own, and a kernel that other code calls.
float dot_tile(__local const float* a, __local const float* b, int row, int column) {
  float sum = 0;
  for (int k = 0; k < 16; k++) sum += a[row * 16 + k] * b[k * 16 + column];
  return sum;
}

__attribute__((reqd_work_group_size(16, 16, 1))) __kernel void matmul(__global const float* a, __global const float* b, __global float* c, int n) {
  __local float ta[256], tb[256];
  int row = get_local_id(1), column = get_local_id(0), at_row = get_group_id(1) * 16 + row, at_column = get_group_id(0) * 16 + column;
  float sum = 0;
  for (int tile = 0; tile < n / 16; tile++) {
    ta[row * 16 + column] = a[at_row * n + tile * 16 + column];
    tb[row * 16 + column] = b[(tile * 16 + row) * n + at_column];
    barrier(CLK_LOCAL_MEM_FENCE);
    sum += dot_tile(ta, tb, row, column);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[at_row * n + at_column] = sum;
}

__kernel void scale(__global float* a, float by) { a[get_global_id(0)] *= by; }
