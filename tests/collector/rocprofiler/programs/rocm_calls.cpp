// Known calls of HIP: prints how many of each function, as JSON, and exits with 1 if rocprofiler's order was broken.
#include <cstdio>

#include "fake_hip.hpp"
#include "fake_rocprofiler.hpp"

int main() {
  char memory[64] = {};
  hipInit(0);
  for (int turn = 0; turn < 7; turn++) hipMemcpy(memory, memory, 32, 3);
  hipMemcpy(nullptr, memory, 32, 3);
  for (int turn = 0; turn < 2; turn++) hipMemset2D(memory, 16, 1, 8, 3);
  for (int turn = 0; turn < 3; turn++) hipStreamQuery(nullptr);
  hipGetErrorName(1);
  for (int turn = 0; turn < 5; turn++) hipFree(memory);
  hipDeviceSynchronize();
  puts(
      "{\"hipInit\": 1, \"hipMemcpy\": 8, \"hipMemset2D\": 2, \"hipStreamQuery\": 3, \"hipGetErrorName\": 1, \"hipFree\": 5, "
      "\"hipDeviceSynchronize\": 1}");
  return fake::violations() != 0;
}
