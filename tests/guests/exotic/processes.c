// Ways to make a process: fork, vfork, posix_spawn, raw clone and clone3, shared memory, exec chains, daemons.
#include "scenes.h"
#include <linux/sched.h>
#include <spawn.h>

extern char** environ;

static int vforks(int count, char** words) {
    (void)count, (void)words;
    volatile int good = 0;
    for (volatile int i = 0; i < 200; ++i) {
        pid_t child = vfork();
        if (!child) {
            execl("/bin/true", "true", (char*)NULL);
            _exit(9);
        }
        good += ended(child) == 0;
        if (!(child = vfork())) _exit(4);
        good += ended(child) == 4;
        if (!(child = vfork())) {
            execl("/nonexistent", "x", (char*)NULL);
            _exit(5);
        }
        good += ended(child) == 5;
    }
    printf("%d of 600\n", good);
    return 0;
}
static int spawns(int count, char** words) {
    (void)count, (void)words;
    int good = 0;
    for (int i = 0; i < 200; ++i) {
        pid_t child;
        char *arguments[] = {"true", NULL}, *nothing[] = {NULL};
        posix_spawn(&child, "/bin/true", NULL, NULL, arguments, i % 2 ? environ : nothing);
        good += ended(child) == 0;
    }
    printf("%d of 200\n", good);
    return 0;
}
static int body(void* unused) {
    (void)unused;
    burn(0.05);
    _exit(7);
}
static int cloned(int flags) {
    int good = 0;
    for (int i = 0; i < 20; ++i) {
        char* stack = malloc(65536);
        good += ended(clone(body, stack + 65536, flags | SIGCHLD, NULL)) == 7;
        free(stack);
    }
    printf("%d of 20\n", good);
    return 0;
}
static int shares_memory(int count, char** words) { return (void)count, (void)words, cloned(CLONE_VM); }
static int like_vfork(int count, char** words) { return (void)count, (void)words, cloned(CLONE_VM | CLONE_VFORK | CLONE_FILES); }
static int raw_fork(int count, char** words) {
    (void)count, (void)words;
    int good = 0;
    for (int i = 0; i < 40; ++i) {
        long child = syscall(SYS_fork);
        if (!child) {
            burn(0.03);
            syscall(SYS_exit_group, 6);
        }
        good += ended((pid_t)child) == 6;
    }
    printf("%d of 40\n", good);
    return 0;
}
static int raw_clone3(int count, char** words) {
    (void)count, (void)words;
    int good = 0;
    for (int i = 0; i < 40; ++i) {
        struct clone_args arguments = {.exit_signal = SIGCHLD};
        long child = syscall(SYS_clone3, &arguments, sizeof arguments);
        if (!child) {
            burn(0.03);
            _exit(6);
        }
        good += ended((pid_t)child) == 6;
    }
    printf("%d of 40\n", good);
    return 0;
}
static volatile int forked;
static void* forks(void* unused) {
    for (int i = 0; i < 40; ++i) {
        pid_t child = fork();
        if (!child) {
            burn(0.001);
            _exit(3);
        }
        if (ended(child) == 3) __sync_fetch_and_add(&forked, 1);
    }
    return unused;
}
static int threads_fork(int count, char** words) {
    (void)count, (void)words;
    pthread_t threads[8];
    for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, forks, NULL);
    for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
    printf("%d of 320\n", (int)forked);
    return 0;
}
static int exec_chain(int count, char** words) {
    int done = count > 2 ? atoi(words[2]) : 0;
    if (done < 200) {
        char next[16];
        snprintf(next, sizeof next, "%d", done + 1);
        burn(0.001);
        execl(words[0], words[0], words[1], next, (char*)NULL);
    }
    printf("%d execs\n", done);
    return 0;
}
static void* executes(void* path) {
    execl(path, path, "exec-chain", "200", (char*)NULL);
    return NULL;
}
static int thread_execs(int count, char** words) {
    (void)count;
    pthread_t thread;
    pthread_create(&thread, NULL, executes, words[0]);
    pthread_join(thread, NULL);
    return 1;
}
// A child that outlives its parent, in a session of its own; what it does reaches a file.
static int daemonizes(int count, char** words) {
    (void)count, (void)words;
    int pipes[2];
    if (pipe(pipes)) return 2;
    if (!fork()) {
        setsid();
        if (fork()) _exit(0);
        for (int descriptor = 0; descriptor < 3; ++descriptor) {
            close(descriptor);
            open("/dev/null", O_RDWR);
        }
        burn(0.3);
        long written = write(pipes[1], "daemon works", 12);
        for (int i = 0; i < 600 && written; ++i) usleep(100000);
        _exit(0);
    }
    close(pipes[1]);
    char text[32] = "";
    long got = read(pipes[0], text, sizeof text - 1);
    printf("%ld %s\n", got, text);
    return 0;
}
static int orphans(int count, char** words) {
    (void)count, (void)words;
    int pipes[2];
    if (pipe(pipes)) return 2;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < 20; ++i)
        if (!fork()) {
            if (!fork()) {
                burn(0.02);
                _exit(5);
            }
            _exit(4);
        }
    int sum = 0, status;
    for (int many = 0; waitpid(-1, &status, 0) > 0; ++many) sum += WEXITSTATUS(status);
    printf("%d\n", sum);
    return 0;
}

int main(int count, char** words) {
    static const struct scene scenes[] = {{"vfork", vforks},         {"spawn", spawns},       {"shares-memory", shares_memory}, {"like-vfork", like_vfork},
                                          {"raw-fork", raw_fork},    {"clone3", raw_clone3},  {"threads-fork", threads_fork},   {"exec-chain", exec_chain},
                                          {"thread-execs", thread_execs}, {"daemon", daemonizes}, {"orphans", orphans}};
    return RUN(scenes, count, words);
}
