// The same product of two square matrices in three ways: c = a * b, row-major floats. n is a multiple of 128.

// One number a thread; its row of a and its column of b come from memory again for every number.
extern "C" __global__ void matmul_basic(unsigned n, const float *a, const float *b, float *c) {
  unsigned column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (unsigned k = 0; k < n; k++)
    sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

#define BLOCK 32

// A block of threads fetches a block of each matrix into shared memory once, for all its threads.
extern "C" __global__ void __launch_bounds__(BLOCK * BLOCK) matmul_blocked(unsigned n, const float *a, const float *b, float *c) {
  __shared__ float left[BLOCK][BLOCK], right[BLOCK][BLOCK];
  unsigned x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * BLOCK + x, row = blockIdx.y * BLOCK + y;
  float sum = 0;
  for (unsigned from = 0; from < n; from += BLOCK) {
    left[y][x] = a[row * n + from + x];
    right[y][x] = b[(from + y) * n + column];
    __syncthreads();
    for (unsigned k = 0; k < BLOCK; k++)
      sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

#define SIDE 16            // threads along a side of a block
#define TILE 8             // numbers along a side of a thread's tile
#define WIDE (SIDE * TILE) // numbers along a side of a block's tile
#define PAD 4              // stores into a column of `left` meet more banks

// As before, and a thread keeps a tile of 8 by 8 numbers in registers: what it fetches from shared memory, it uses eight times.
extern "C" __global__ void __launch_bounds__(SIDE * SIDE) matmul_tiled(unsigned n, const float *a, const float *b, float *c) {
  __shared__ float left[SIDE][WIDE + PAD], right[SIDE][WIDE];
  unsigned x = threadIdx.x, y = threadIdx.y, thread = y * SIDE + x;
  unsigned column = WIDE * blockIdx.x, row = WIDE * blockIdx.y;
  float sum[TILE][TILE] = {};
  for (unsigned from = 0; from < n; from += SIDE) {
    for (unsigned part = 0; part < SIDE * WIDE; part += SIDE * SIDE) {
      unsigned i = part + thread;
      left[i % SIDE][i / SIDE] = a[(row + i / SIDE) * n + from + i % SIDE];
      right[i / WIDE][i % WIDE] = b[(from + i / WIDE) * n + column + i % WIDE];
    }
    __syncthreads();
    for (unsigned k = 0; k < SIDE; k++)
#pragma unroll
      for (unsigned i = 0; i < TILE; i++)
#pragma unroll
        for (unsigned j = 0; j < TILE; j++)
          sum[i][j] += left[k][y * TILE + i] * right[k][x * TILE + j];
    __syncthreads();
  }
#pragma unroll
  for (unsigned i = 0; i < TILE; i++)
#pragma unroll
    for (unsigned j = 0; j < TILE; j++)
      c[(row + y * TILE + i) * n + column + x * TILE + j] = sum[i][j];
}
