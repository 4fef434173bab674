// The same product of two square matrices in three ways: c = a * b, row-major floats.

// One number a work item; its column of b comes from memory again for every row.
kernel void matmul_basic(const uint n, global const float *a, global const float *b, global float *c) {
  uint column = get_global_id(0), row = get_global_id(1);
  float sum = 0;
  for (uint k = 0; k < n; k++)
    sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

#define BLOCK 16

// A work-group fetches a block of each matrix into local memory once, for all its work items.
kernel __attribute__((reqd_work_group_size(BLOCK, BLOCK, 1)))
void matmul_blocked(const uint n, global const float *a, global const float *b, global float *c) {
  local float left[BLOCK][BLOCK], right[BLOCK][BLOCK];
  uint x = get_local_id(0), y = get_local_id(1), column = get_global_id(0), row = get_global_id(1);
  float sum = 0;
  for (uint from = 0; from < n; from += BLOCK) {
    left[y][x] = a[row * n + from + x];
    right[y][x] = b[(from + y) * n + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < BLOCK; k++)
      sum += left[y][k] * right[k][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + column] = sum;
}

#ifdef WIDE_VECTORS

// For processors with wide vector registers: a work item keeps a tile of 4 by 16 numbers in them.
kernel void matmul_tiled(const uint n, global const float *a, global const float *b, global float *c) {
  uint column = 16 * get_global_id(0), row = 4 * get_global_id(1);
  float16 sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  for (uint k = 0; k < n; k++) {
    float16 right = vload16(0, b + k * n + column);
    sum0 += a[row * n + k] * right;
    sum1 += a[(row + 1) * n + k] * right;
    sum2 += a[(row + 2) * n + k] * right;
    sum3 += a[(row + 3) * n + k] * right;
  }
  vstore16(sum0, 0, c + row * n + column);
  vstore16(sum1, 0, c + (row + 1) * n + column);
  vstore16(sum2, 0, c + (row + 2) * n + column);
  vstore16(sum3, 0, c + (row + 3) * n + column);
}

#else

#define TILE 4
#define WIDE (BLOCK * TILE)

// For processors with many small threads: a work item keeps a tile of 4 by 4 numbers, and its group fetches for 64 by 64.
kernel __attribute__((reqd_work_group_size(BLOCK, BLOCK, 1)))
void matmul_tiled(const uint n, global const float *a, global const float *b, global float *c) {
  local float left[BLOCK][WIDE], right[BLOCK][WIDE];
  uint x = get_local_id(0), y = get_local_id(1), item = y * BLOCK + x;
  uint column = WIDE * get_group_id(0), row = WIDE * get_group_id(1);
  float sum[TILE][TILE] = {{0}};
  for (uint from = 0; from < n; from += BLOCK) {
    for (uint i = item; i < BLOCK * WIDE; i += BLOCK * BLOCK) {
      left[i % BLOCK][i / BLOCK] = a[(row + i / BLOCK) * n + from + i % BLOCK];
      right[i / WIDE][i % WIDE] = b[(from + i / WIDE) * n + column + i % WIDE];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < BLOCK; k++)
      for (uint i = 0; i < TILE; i++)
        for (uint j = 0; j < TILE; j++)
          sum[i][j] += left[k][y * TILE + i] * right[k][x * TILE + j];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (uint i = 0; i < TILE; i++)
    for (uint j = 0; j < TILE; j++)
      c[(row + y * TILE + i) * n + column + x * TILE + j] = sum[i][j];
}

#endif
