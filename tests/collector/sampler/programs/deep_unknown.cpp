// Works at the end of a deep stack that is hard to search: frames without unwind information, full of addresses of generated code.
// Prints the milliseconds of CPU time that it took.
#include <sys/mman.h>
#include <cstdio>
#include <ctime>

// Of so many frames, the last counts `rounds` down. All are full of `filler`.
extern "C" void deep(long frames, long rounds, void* filler);
asm(R"(
    .text
deep:
    subq $4088, %rsp
    movq %rdi, %r8
    movq %rdx, %rax
    movq %rsp, %rdi
    movl $511, %ecx
    rep stosq
    movq %r8, %rdi
    decq %rdi
    jz 1f
    call deep
    jmp 2f
1:  decq %rsi
    jnz 1b
2:  addq $4088, %rsp
    ret
)");

int main() {
  void* generated = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  deep(200, 700'000'000, static_cast<char*>(generated) + 100);
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  printf("%ld\n", used.tv_sec * 1000 + used.tv_nsec / 1'000'000);
  return 3;
}
