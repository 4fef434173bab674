// The same product of two square matrices in three ways: c = a · b, row-major floats.
//
// Each does the same 2·n³ operations; they differ in how they meet the memory and the registers. That is all a flame graph of
// them has to show. An innermost loop is one line, for that is how close a sample comes: it names the instruction after the slow one.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#define AIFLAME_DEMO extern "C" __attribute__((visibility("default")))

// Walks down a column of b in the innermost loop: every step is in another cache line.
AIFLAME_DEMO void matmul_basic(size_t n, const float* a, const float* b, float* c) {
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < n; j++) {
      float sum = 0;
      for (size_t k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
      c[i * n + j] = sum;
    }
  }
}

// Works on blocks that stay in the first cache, and walks along rows alone.
AIFLAME_DEMO void matmul_blocked(size_t n, const float* __restrict a, const float* __restrict b, float* __restrict c) {
  constexpr size_t kBlock = 64;
  std::fill(c, c + n * n, 0.0f);
  for (size_t k0 = 0; k0 < n; k0 += kBlock) {
    for (size_t j0 = 0, j1 = std::min(kBlock, n); j0 < n; j0 = j1, j1 = std::min(j1 + kBlock, n)) {
      for (size_t i = 0; i < n; i++) {
        for (size_t k = k0; k < std::min(k0 + kBlock, n); k++) {
          float left = a[i * n + k];
          for (size_t j = j0; j < j1; j++) c[i * n + j] += left * b[k * n + j];
        }
      }
    }
  }
}

// Keeps a tile of c, kRows by two vectors, in registers for the whole innermost loop. n must be a multiple of the tile.
template <size_t kLanes>
__attribute__((always_inline)) inline void matmul_tiles(size_t n, const float* a, const float* b, float* c) {
  constexpr size_t kRows = 4, kColumns = 2 * kLanes;
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float))));
  for (size_t j = 0; j < n; j += kColumns) {
    for (size_t i = 0; i < n; i += kRows) {
      Vector sum[kRows][2] = {};
      for (size_t k = 0; k < n; k++) {
        Vector b0 = *reinterpret_cast<const Vector*>(b + k * n + j);
        Vector b1 = *reinterpret_cast<const Vector*>(b + k * n + j + kLanes);
#pragma GCC unroll 4
        for (size_t row = 0; row < kRows; row++) {
          sum[row][0] += a[(i + row) * n + k] * b0;
          sum[row][1] += a[(i + row) * n + k] * b1;
        }
      }
#pragma GCC unroll 4
      for (size_t row = 0; row < kRows; row++) {
        *reinterpret_cast<Vector*>(c + (i + row) * n + j) = sum[row][0];
        *reinterpret_cast<Vector*>(c + (i + row) * n + j + kLanes) = sum[row][1];
      }
    }
  }
}

__attribute__((target("avx2,fma"))) static void matmul_tiled_avx2(size_t n, const float* a, const float* b, float* c) { matmul_tiles<8>(n, a, b, c); }
static void matmul_tiled_sse(size_t n, const float* a, const float* b, float* c) { matmul_tiles<4>(n, a, b, c); }

AIFLAME_DEMO void matmul_tiled(size_t n, const float* a, const float* b, float* c) {
  bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  wide ? matmul_tiled_avx2(n, a, b, c) : matmul_tiled_sse(n, a, b, c);
}
