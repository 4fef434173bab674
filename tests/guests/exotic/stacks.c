// Stacks: alternate ones of all sizes, jumps out of handlers, overflows, coroutines, data below the stack pointer.
#include "scenes.h"
#include <sys/auxv.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile sig_atomic_t heard;

static void nothing(int number) { heard += number > 0; }
static void jump(int number) { siglongjmp(back, number); }
static void jump_with_context(int number, siginfo_t* info, void* context) {
    (void)info;
    (void)context;
    heard++;
    siglongjmp(back, number);
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

// An alternate stack of SIZE bytes in the middle of patterned memory: is anything written below it?
static int alternate(int count, char** words) {
    size_t size = count > 2 ? strtoul(words[2], NULL, 10) : 2048;
    size_t around = (size + (2 << 20)) & ~4095ul;
    unsigned char* memory = mmap(NULL, around + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 0x5a, around);
    stack_t stack = {.ss_sp = memory + around, .ss_size = size};
    int set = sigaltstack(&stack, NULL);
    handle(SIGUSR1, nothing, SA_ONSTACK);
    burn(0.6);
    stack_t found = {0};
    sigaltstack(NULL, &found);
    size_t written = 0;
    for (size_t i = 0; i < around; ++i) written += memory[i] != 0x5a;
    printf("set %d (%d), asked: %s %zu flags %d, %zu bytes below it written\n", set, set ? errno : 0,
           found.ss_sp == stack.ss_sp ? "ours" : "another", found.ss_size, found.ss_flags, written);
    if (!set && size >= 16384) raise(SIGUSR1);
    printf("heard %d\n", heard);
    return 0;
}

// What a thread is told of its alternate stack when it never set one, has disabled one, or is on it.
static void* asks(void* unused) {
    stack_t found = {.ss_sp = &found, .ss_size = 1};
    burn(0.05);
    int asked = sigaltstack(NULL, &found);
    printf("thread: %d, stack %s, size %zu, flags %d\n", asked, found.ss_sp ? "set" : "none", found.ss_size, found.ss_flags);
    return unused;
}
static void on_it(int number) {
    (void)number;
    stack_t found, mine = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(NULL, &found);
    int changed = sigaltstack(&mine, NULL);
    burn(0.05);
    printf("on it: flags %d, changing it gives %d (%s)\n", found.ss_flags, changed, strerror(errno));
    free(mine.ss_sp);
}
static int asked(int count, char** words) {
    (void)count, (void)words;
    asks(NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, asks, NULL);
    pthread_join(thread, NULL);
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, off = {.ss_flags = SS_DISABLE}, old;
    printf("set %d\n", sigaltstack(&stack, NULL));
    handle(SIGUSR1, on_it, SA_ONSTACK);
    raise(SIGUSR1);
    printf("too small %d %d\n", sigaltstack(&(stack_t){.ss_sp = stack.ss_sp, .ss_size = 512}, NULL), errno);
    printf("bad flags %d %d\n", sigaltstack(&(stack_t){.ss_sp = stack.ss_sp, .ss_size = 65536, .ss_flags = 77}, NULL), errno);
    printf("bad address %d %d\n", sigaltstack((stack_t*)8, NULL), errno);
    printf("off %d", sigaltstack(&off, &old));
    printf(", before: %s %zu\n", old.ss_sp == stack.ss_sp ? "ours" : "another", old.ss_size);
    burn(0.05);
    free(stack.ss_sp);
    asks(NULL);
    pid_t child = fork();
    if (!child) {
        asks(NULL);
        fflush(stdout);
        _exit(3);
    }
    printf("child %d\n", ended(child));
    return 0;
}

static int long_jumps(int count, char** words) {
    (void)count, (void)words;
    handle(SIGALRM, jump, 0);
    struct itimerval every = {{0, 700}, {0, 700}};
    volatile int jumps = 0, rounds = 0;
    setitimer(ITIMER_REAL, &every, NULL);
    if (sigsetjmp(back, 1)) jumps++;
    while (jumps < 2000) rounds++;
    signal(SIGALRM, SIG_IGN);
    puts("2000 jumps out of handlers");
    return 0;
}

static int faults(int count, char** words) {
    (void)count, (void)words;
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = jump_with_context, .sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    volatile int survived = 0;
    for (volatile int i = 0; i < 20000; ++i) {
        if (sigsetjmp(back, 1)) survived++;
        else *(volatile int*)(uintptr_t)(i % 3 ? 8 : 0) = 1;
    }
    printf("%d faults, %d handled\n", (int)survived, (int)heard);
    return 0;
}

static long __attribute__((noinline)) deeper(long depth) {
    volatile char block[200];
    block[0] = (char)depth;
    return depth ? deeper(depth - 1) + block[0] : 0;
}
static int overflows(int count, char** words) {
    (void)count, (void)words;
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    handle(SIGSEGV, jump, SA_ONSTACK);
    volatile int survived = 0;
    for (volatile int i = 0; i < 40; ++i) {
        if (sigsetjmp(back, 1)) survived++;
        else deeper(1L << 40);
    }
    printf("%d overflows survived\n", (int)survived);
    return 0;
}

static ucontext_t main_context, other_context;
static volatile int switches;
static void coroutine(void) {
    for (;;) {
        switches++;
        burn(0.0004);
        swapcontext(&other_context, &main_context);
    }
}
static int coroutines(int count, char** words) {
    (void)count, (void)words;
    char* stack = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = stack;
    other_context.uc_stack.ss_size = 16384;
    makecontext(&other_context, coroutine, 0);
    for (int i = 0; i < 2000; ++i) swapcontext(&main_context, &other_context);
    printf("%d switches\n", (int)switches);
    return 0;
}

// Live data far below the stack pointer, as hand-written kernels keep it: a signal on this stack would destroy it.
static int below(int count, char** words) {
    (void)count, (void)words;
    long damaged = 0;
    for (int round = 0; round < 400; ++round) {
        long bad;
        __asm__ volatile(
            "lea -65536(%%rsp), %%rax\n mov $4096, %%rcx\n"
            "1: mov %%rcx, -8(%%rax,%%rcx,8)\n dec %%rcx\n jnz 1b\n"
            "mov $3000000, %%rcx\n 2: dec %%rcx\n jnz 2b\n"
            "xor %%rdx, %%rdx\n mov $4096, %%rcx\n"
            "3: cmp %%rcx, -8(%%rax,%%rcx,8)\n je 4f\n inc %%rdx\n 4: dec %%rcx\n jnz 3b\n"
            : "=d"(bad)::"rax", "rcx", "memory", "cc");
        damaged += bad;
    }
    printf("%ld words below the stack pointer changed\n", damaged);
    return 0;
}

int main(int count, char** words) {
    static const struct scene scenes[] = {{"alternate", alternate}, {"asked", asked},         {"longjmp", long_jumps}, {"faults", faults},
                                          {"overflows", overflows}, {"ucontext", coroutines}, {"below", below}};
    return RUN(scenes, count, words);
}
