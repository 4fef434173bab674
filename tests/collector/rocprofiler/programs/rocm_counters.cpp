// Known work for a GPU that is counted: `rocm_counters CODE_OBJECT`. The first kernel, `sum`, counts nothing; ten `scale` follow.
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
  hip::synchronize();
  printf("%d violations\n", fake::violations());
  return 0;
}
