// A program with known work on a GPU: `rocm_client CODE_OBJECT ADDRESSES`. `scale` is launched three times by left() and once by right(), whose run
// takes as long as all others together; each launch has a hundred samples: 60 at the first of ADDRESSES (waiting for memory), 30 at the second
// (issued) and 10 at the third, in a function that the kernel calls (waiting for a result).
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "hip_in_front.hpp"

namespace {

uint64_t addresses[3];

__attribute__((noinline)) void launch(uint64_t duration) {
  const fake::Place places[] = {{addresses[0], 3, 60}, {addresses[1], -1, 30}, {addresses[2], 2, 10}};
  hip::launch_kernel({"scale", duration, places, 3}, 4, 64);
  asm volatile("");
}

__attribute__((noinline)) void left() {
  for (int at = 0; at < 3; at++) launch(100'000);
  asm volatile("");
}

// On the last GPU.
__attribute__((noinline)) void right() {
  fake::use_device(fake::device_count() - 1);
  launch(3'000'000);
  fake::use_device(0);
  asm volatile("");
}

// ENDS: `kill` by a signal, `_exit` without handlers, `fork`: a child that ends before its parent, as Python's processes do; or as usual.
void end_as(const char* said) {
  std::string end = said ? said : "";
  if (end == "kill") raise(SIGKILL);
  if (end == "_exit") _exit(0);
  if (end != "fork") return;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    hip::get_device();
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) _exit(98);
}

}  // namespace

int main(int, char** arguments) {
  std::ifstream file(arguments[1], std::ios::binary);
  std::string code((std::istreambuf_iterator<char>(file)), {});
  char* next = arguments[2];
  for (uint64_t& address : addresses) address = strtoull(next, &next, 0), next++;
  const char* const kernels[] = {"scale", "sum"};
  hip::load(code.data(), code.size(), kernels, 2);
  hip::get_device();
  hip::copy(4096);
  left();
  right();
  const fake::Place nowhere[] = {{0, 9, 5}};
  hip::launch_kernel({"sum", 50'000, nowhere, 1}, 1, 32);
  hip::lose_samples();
  hip::synchronize();
  hip::unload();
  end_as(getenv("ENDS"));
  printf("%d violations\n", fake::violations());
  return 0;
}
