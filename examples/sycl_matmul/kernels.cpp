// The same product of two square matrices in three ways: c = a * b, row-major floats. matmul.cpp compiles this text while it runs.
#include <sycl/sycl.hpp>

namespace ext = sycl::ext::oneapi;
namespace experimental = sycl::ext::oneapi::experimental;

constexpr int kBlock = 16;

// One number a work item; its column of b comes from memory again for every row.
extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((experimental::nd_range_kernel<2>))
void matmul_basic(int n, const float *a, const float *b, float *c) {
  auto item = ext::this_work_item::get_nd_item<2>();
  int row = item.get_global_id(0), column = item.get_global_id(1);
  float sum = 0;
  for (int k = 0; k < n; k++)
    sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

// A group fetches a block of each matrix into local memory once, for all its work items.
extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((experimental::nd_range_kernel<2>))
void matmul_local(int n, const float *a, const float *b, float *c) {
  auto item = ext::this_work_item::get_nd_item<2>();
  static experimental::work_group_static<float[kBlock][kBlock]> left;
  static experimental::work_group_static<float[kBlock][kBlock]> right;
  int row = item.get_global_id(0), column = item.get_global_id(1), y = item.get_local_id(0), x = item.get_local_id(1);
  float sum = 0;
  for (int from = 0; from < n; from += kBlock) {
    left[y][x] = a[row * n + from + x];
    right[y][x] = b[(from + y) * n + column];
    sycl::group_barrier(item.get_group());
    for (int k = 0; k < kBlock; k++)
      sum += left[y][k] * right[k][x];
    sycl::group_barrier(item.get_group());
  }
  c[row * n + column] = sum;
}

constexpr int kTile = 4, kWide = kBlock * kTile;

// And each work item keeps a tile of 4 by 4 numbers in its registers; its group fetches for 64 by 64.
extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((experimental::nd_range_kernel<2>))
void matmul_tiled(int n, const float *a, const float *b, float *c) {
  auto item = ext::this_work_item::get_nd_item<2>();
  static experimental::work_group_static<float[kBlock][kWide]> left;
  static experimental::work_group_static<float[kBlock][kWide]> right;
  int y = item.get_local_id(0), x = item.get_local_id(1), first = y * kBlock + x;
  int row = kWide * item.get_group(0), column = kWide * item.get_group(1);
  float sum[kTile][kTile] = {};
  for (int from = 0; from < n; from += kBlock) {
    for (int i = first; i < kBlock * kWide; i += kBlock * kBlock) {
      left[i % kBlock][i / kBlock] = a[(row + i / kBlock) * n + from + i % kBlock];
      right[i / kWide][i % kWide] = b[(from + i / kWide) * n + column + i % kWide];
    }
    sycl::group_barrier(item.get_group());
    for (int k = 0; k < kBlock; k++)
      for (int i = 0; i < kTile; i++)
        for (int j = 0; j < kTile; j++)
          sum[i][j] += left[k][y * kTile + i] * right[k][x * kTile + j];
    sycl::group_barrier(item.get_group());
  }
  for (int i = 0; i < kTile; i++)
    for (int j = 0; j < kTile; j++)
      c[(row + y * kTile + i) * n + column + x * kTile + j] = sum[i][j];
}
