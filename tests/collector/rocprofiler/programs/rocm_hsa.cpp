// Known calls of HSA without HIP, as a runtime of OpenMP makes them: `rocm_hsa CODE_OBJECT`. left() gives the device three kernels of 100 µs, right()
// two of 450 µs at once.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "fake_rocprofiler.hpp"
#include "hip_in_front.hpp"

namespace {

__attribute__((noinline)) void on_agent() {
  fake::Call("hsa_agent_get_info").ends(0);
  asm volatile("");
}

void iterate_agents() {
  fake::Call call("hsa_iterate_agents");
  for (int turn = 0; turn < 2; turn++) on_agent();
  call.ends(1);  // "break"
}

__attribute__((noinline)) void left() {
  for (int turn = 0; turn < 3; turn++) fake::submit({"scale", 100'000, nullptr, 0}, 4, 64);
  asm volatile("");
}

__attribute__((noinline)) void right() {
  fake::submit({"scale", 450'000, nullptr, 0}, 4, 64, 2);
  asm volatile("");
}

}  // namespace

int main(int, char** arguments) {
  std::ifstream file(arguments[1], std::ios::binary);
  std::string code((std::istreambuf_iterator<char>(file)), {});
  const char* const kernels[] = {"scale", "sum"};
  hip::load(code.data(), code.size(), kernels, 2);
  fake::Call("hsa_init").ends(0);
  iterate_agents();
  fake::Call("hsa_agent_get_info").ends(0);
  fake::Call("hsa_memory_allocate").ends(0x1008);
  for (uint64_t bytes : {64, 32}) fake::Call("hsa_memory_copy", {0, 0, bytes}).ends(0);
  fake::Call("hsa_memory_copy", {0, 0, 16}).ends(0x1001);
  fake::Call("hsa_amd_memory_fill", {0, 7, 5}).ends(0);
  left();
  right();
  fake::wait_for_signal();
  printf("%d violations\n", fake::violations());
  return 0;
}
