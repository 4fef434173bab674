// Five parallel regions of two threads, each with a loop, a barrier and a single construct, as clang writes them for LLVM's and Intel's
// runtimes. The second thread sleeps 20 ms in each loop: the first waits for it at the barrier.
#include <unistd.h>

extern "C" {

struct ident_t {
  int reserved_1, flags, reserved_2, reserved_3;
  const char* source;
};
void __kmpc_fork_call(ident_t*, int, void (*)(int*, int*, ...), ...);
void __kmpc_push_num_threads(ident_t*, int, int);
int __kmpc_global_thread_num(ident_t*);
void __kmpc_for_static_init_4(ident_t*, int, int schedule, int* last, int* lower, int* upper, int* stride, int increment, int chunk);
void __kmpc_for_static_fini(ident_t*, int);
void __kmpc_barrier(ident_t*, int);
int __kmpc_single(ident_t*, int);
void __kmpc_end_single(ident_t*, int);

ident_t location{0, 2, 0, 0, ";file;function;1;1;;"};
// The flags name the construct to the runtime (kmp.h: KMP_IDENT_WORK_LOOP, KMP_IDENT_BARRIER_EXPL).
ident_t loop{0, 2 | 0x200, 0, 0, ";file;function;2;1;;"};
ident_t barrier{0, 2 | 0x20, 0, 0, ";file;function;3;1;;"};

void outlined(int* thread, int* of_team, ...) {
  int last = 0, lower = 0, upper = 1, stride = 1;
  __kmpc_for_static_init_4(&loop, *thread, 34, &last, &lower, &upper, &stride, 1, 1);
  if (*of_team == 1) usleep(20000);
  __kmpc_for_static_fini(&loop, *thread);
  __kmpc_barrier(&barrier, *thread);
  if (__kmpc_single(&location, *thread)) __kmpc_end_single(&location, *thread);
}
}

int main() {
  for (int turn = 0; turn < 5; turn++) {
    __kmpc_push_num_threads(&location, __kmpc_global_thread_num(&location), 2);
    __kmpc_fork_call(&location, 0, outlined);
  }
  return 0;
}
