// The calls that clang compiles a parallel region and the serial work behind it to, for LLVM's and Intel's runtimes; written out, so that no clang
// is needed. `omp_llvm` answers 0; with the argument "tool" it prints whether a tool would be used.
#include <dlfcn.h>
#include <cstdio>
#include <cstring>

extern "C" {

struct ident_t {
  int reserved_1, flags, reserved_2, reserved_3;
  const char* source;
};
void __kmpc_fork_call(ident_t*, int, void (*)(int*, int*, ...), ...);
void __kmpc_push_num_threads(ident_t*, int, int);
int __kmpc_global_thread_num(ident_t*);

volatile double sink;
ident_t location{0, 2, 0, 0, ";file;function;1;1;;"};

__attribute__((noinline)) void leaf(long turns) {
  double sum = 0;
  for (long turn = 0; turn < turns; turn++) sum += static_cast<double>(turn) * 0.5;
  sink = sum;
}

__attribute__((noinline)) void outlined(int*, int*, ...) {
  leaf(9000000);
  sink = sink + 1;
}

__attribute__((noinline)) void launches_much() {
  __kmpc_push_num_threads(&location, __kmpc_global_thread_num(&location), 2);
  __kmpc_fork_call(&location, 0, outlined);
  sink = sink + 1;
}

__attribute__((noinline)) void serial() { leaf(12000000); }
}

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "tool") == 0) {
    auto start = reinterpret_cast<void* (*)(unsigned, const char*)>(dlsym(RTLD_DEFAULT, "ompt_start_tool"));
    printf("%s\n", start && start(201811, "test") ? "a tool" : "no tool");
    return 0;
  }
  for (int turn = 0; turn < 40; turn++) {
    launches_much();
    serial();
  }
  return 0;
}
