// Programs that do something unusual: `PROGRAM SCENE`. Each prints what it noticed; recorded it must print the same.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct scene {
    const char* name;
    int (*run)(int count, char** words);  // what it returns is the exit status
};

// Uses CPU time in this thread, with system calls only if `now` needs them.
static void burn(double seconds) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    double end = now.tv_sec + now.tv_nsec / 1e9 + seconds;
    volatile double sum = 0;
    do {
        for (int i = 0; i < 20000; ++i) sum += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec + now.tv_nsec / 1e9 < end);
}

// The same without any call: for places where none may be made.
static inline void spin(long rounds) {
    for (volatile long i = 0; i < rounds; ++i) {
    }
}

// The status with which a child ended, or minus the signal.
static int ended(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int run_scene(const struct scene* scenes, int many, int count, char** words) {
    for (int i = 0; count > 1 && i < many; ++i)
        if (!strcmp(scenes[i].name, words[1])) return scenes[i].run(count, words);
    fprintf(stderr, "no such scene\n");
    return 99;
}
#define RUN(scenes, count, words) run_scene(scenes, (int)(sizeof(scenes) / sizeof(*(scenes))), count, words)
