// Threads: thousands with small stacks, made by raw clone with and without thread-local storage, scheduled in unusual ways.
#include "scenes.h"
#include <asm/prctl.h>
#include <linux/futex.h>

static void* short_life(void* passed) {
    volatile char block[2000];
    memset((char*)block, 1, sizeof block);
    burn(0.0002);
    return passed;
}
static void* small_stack(void* passed) {
    volatile char block[9000];
    memset((char*)block, 1, sizeof block);
    burn(0.008);
    return passed;
}
static int made(int rounds, int each, void* (*body)(void*)) {
    int good = 0;
    pthread_t* threads = malloc(sizeof(pthread_t) * (size_t)each);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    for (int round = 0; round < rounds; ++round) {
        int begun = 0;
        while (begun < each && !pthread_create(&threads[begun], &attributes, body, threads)) begun++;
        for (int i = 0; i < begun; ++i) {
            void* result;
            pthread_join(threads[i], &result);
            good += result == threads;
        }
    }
    free(threads);
    return good;
}
static int many(int count, char** words) {
    (void)count, (void)words;
    printf("%d threads of 16 KB\n", made(4, 2000, short_life));
    return 0;
}
static int small(int count, char** words) {
    (void)count, (void)words;
    printf("%d threads that use 9 KB of 16\n", made(3, 50, small_stack));
    return 0;
}

static volatile int over;
static char raw_stack[1 << 16] __attribute__((aligned(16)));
static int raw_body(void* no_tls) {
    if (no_tls) __asm__ volatile("syscall" : : "a"(SYS_arch_prctl), "D"(ARCH_SET_FS), "S"(0L) : "rcx", "r11", "memory");
    for (volatile long i = 0; i < 300000000; ++i) {
    }
    over = 1;
    __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(0) : "rcx", "r11", "memory");
    __builtin_unreachable();
}
// A thread by raw clone; `no_tls`: with fs = 0, else it shares its creator's thread-local storage, whose errno must not change.
static int raw(int flags, void* no_tls) {
    errno = 77;
    long changed = 0;
    if (clone(raw_body, raw_stack + sizeof raw_stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_SYSVSEM | flags, no_tls) < 0) return 2;
    while (!over) {
        spin(1000);
        changed += errno != 77;
        errno = 77;
    }
    printf("errno changed %ld times\n", changed);
    return 0;
}
static int shared_tls(int count, char** words) {
    (void)count, (void)words;
    return raw(CLONE_THREAD, NULL);
}
static int no_tls(int count, char** words) {
    (void)count, (void)words;
    return raw(CLONE_THREAD, (void*)1);
}
static int shared_memory_process(int count, char** words) {
    (void)count, (void)words;
    return raw(0, NULL);
}

static int realtime(int count, char** words) {
    (void)count, (void)words;
    struct sched_param priority = {.sched_priority = 10};
    int set = sched_setscheduler(0, SCHED_FIFO, &priority);
    printf("%d", set);
    burn(0.6);
    printf(" %d %d threads\n", sched_getscheduler(0), made(1, 20, short_life));
    return 0;
}
static int deadline(int count, char** words) {
    (void)count, (void)words;
    struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; } wanted = {
        48, 6, 0, 0, 0, 5000000, 10000000, 10000000};
    long set = syscall(SYS_sched_setattr, 0, &wanted, 0);
    burn(0.6);
    printf("%ld %d\n", set, set ? errno : 0);
    return 0;
}
static int affinity(int count, char** words) {
    (void)count, (void)words;
    int same = 0;
    for (int i = 0; i < 200; ++i) {
        cpu_set_t wanted, found;
        CPU_ZERO(&wanted);
        CPU_SET(i % 2, &wanted);
        sched_setaffinity(0, sizeof wanted, &wanted);
        burn(0.002);
        sched_getaffinity(0, sizeof found, &found);
        same += CPU_EQUAL(&wanted, &found);
    }
    printf("%d of 200 as set\n", same);
    return 0;
}

// Robust mutexes, cancellation and thread-local destructors run as ever.
static pthread_key_t key;
static volatile int destroyed;
static void destroy(void* unused) { (void)unused, destroyed++; }
static void* to_cancel(void* passed) {
    pthread_setspecific(key, passed);
    while (passed) {
        burn(0.001);
        pthread_testcancel();
    }
    return NULL;
}
static void* dies_holding(void* mutex) {
    pthread_mutex_lock(mutex);
    burn(0.01);
    return NULL;
}
static int ends(int count, char** words) {
    (void)count, (void)words;
    pthread_key_create(&key, destroy);
    for (int i = 0; i < 50; ++i) {
        pthread_t thread;
        void* result;
        pthread_create(&thread, NULL, to_cancel, &key);
        usleep(2000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED) puts("not cancelled");
    }
    pthread_mutex_t mutex;
    pthread_mutexattr_t robust;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &robust);
    pthread_t thread;
    pthread_create(&thread, NULL, dies_holding, &mutex);
    pthread_join(thread, NULL);
    printf("destroyed %d, owner died %d\n", (int)destroyed, pthread_mutex_lock(&mutex) == EOWNERDEAD);
    return 0;
}
static void* outlives(void* unused) {
    burn(0.3);
    puts("the last thread ends the process");
    fflush(stdout);
    return unused;
}
static int leader_leaves(int count, char** words) {
    (void)count, (void)words;
    pthread_t thread;
    pthread_create(&thread, NULL, outlives, NULL);
    burn(0.1);
    pthread_exit(NULL);
}

int main(int count, char** words) {
    static const struct scene scenes[] = {{"many", many},         {"small", small},       {"shared-tls", shared_tls}, {"no-tls", no_tls},
                                          {"shared-memory-process", shared_memory_process}, {"realtime", realtime}, {"deadline", deadline},
                                          {"affinity", affinity}, {"ends", ends},         {"leader-leaves", leader_leaves}};
    return RUN(scenes, count, words);
}
