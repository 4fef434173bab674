// Known work for GPUs that are counted: `rocm_counters CODE_OBJECT`. The first kernel, `sum`, counts nothing; ten `scale` follow on the first GPU,
// and three on the second where there is one.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "hip_in_front.hpp"

int main(int, char** arguments) {
  std::ifstream file(arguments[1], std::ios::binary);
  std::string code((std::istreambuf_iterator<char>(file)), {});
  const char* const kernels[] = {"scale", "sum"};
  hip::load(code.data(), code.size(), kernels, 2);
  hip::launch_kernel({"sum", 1'000, nullptr, 0}, 1, 32);
  if (getenv("COUNTED")) fake::wait_until_counting();
  for (int turn = 0; turn < 10; turn++) hip::launch_kernel({"scale", 1'000, nullptr, 0}, 4, 64);
  if (fake::device_count() > 1) {
    fake::use_device(1);
    for (int turn = 0; turn < 3; turn++) hip::launch_kernel({"scale", 1'000, nullptr, 0}, 4, 64);
  }
  hip::synchronize();
  printf("%d violations\n", fake::violations());
  return 0;
}
