// Signals: all blocked, waited for, stopped and continued, counted, timers of the program's own, traced by a parent.
#include "scenes.h"
#include <sys/ptrace.h>
#include <sys/signalfd.h>

static volatile sig_atomic_t heard;
static void count_it(int number) { heard += number > 0; }

static int members(const sigset_t* set) {
    int many = 0;
    for (int number = 1; number < 65; ++number) many += sigismember(set, number) > 0;
    return many;
}

static int block_all(int count, char** words) {
    (void)count, (void)words;
    sigset_t all, found;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    burn(0.7);
    sigprocmask(SIG_BLOCK, NULL, &found);
    printf("blocked %d", members(&found));
    sigpending(&found);
    printf(", pending %d\n", members(&found));
    struct timespec wait = {0, 300000000};
    siginfo_t info;
    errno = 0;
    int got = sigtimedwait(&all, &info, &wait);
    printf("waited for: %d %d\n", got, errno);
    int descriptor = signalfd(-1, &all, SFD_NONBLOCK);
    burn(0.3);
    struct signalfd_siginfo read_back;
    errno = 0;
    long bytes = read(descriptor, &read_back, sizeof read_back);
    printf("signalfd: %ld %d\n", bytes, errno);
    raise(SIGUSR1);
    printf("own: %ld\n", (long)read(descriptor, &read_back, sizeof read_back));
    sigset_t prof;
    sigemptyset(&prof);
    sigaddset(&prof, SIGPROF);
    raise(SIGPROF);
    printf("own SIGPROF: %d\n", sigtimedwait(&prof, &info, &wait));
    return 0;
}
static void* blocks_all(void* unused) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    burn(0.3);
    return unused;
}
static int blocked_thread(int count, char** words) {
    (void)count, (void)words;
    pthread_t thread;
    pthread_create(&thread, NULL, blocks_all, NULL);
    int waited = pthread_join(thread, NULL);
    printf("joined %d\n", waited);
    return 0;
}
static int suspended(int count, char** words) {
    (void)count, (void)words;
    signal(SIGUSR1, count_it);
    sigset_t blocked, none;
    sigemptyset(&none);
    sigfillset(&blocked);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    int heard_it[2];
    char byte = 0;
    if (pipe(heard_it)) return 2;
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 20; ++i) {
            usleep(10000);
            kill(getppid(), SIGUSR1);
            if (read(heard_it[0], &byte, 1) != 1) _exit(1);
        }
        _exit(0);
    }
    int wakes = 0;
    while (heard < 20) {
        burn(0.004);
        errno = 0;
        wakes += sigsuspend(&none) == -1 && errno == EINTR;
        if (write(heard_it[1], &byte, 1) != 1) return 3;
    }
    printf("heard %d, woken as often: %d, child %d\n", heard, wakes == heard, ended(child));
    return 0;
}
// System calls are interrupted by the program's own signals alone.
static int interrupted(int count, char** words) {
    (void)count, (void)words;
    int pipes[2], wrong = 0;
    if (pipe(pipes)) return 2;
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 200; ++i) {
            burn(0.002);
            if (write(pipes[1], "x", 1) != 1) _exit(1);
        }
        _exit(0);
    }
    for (int i = 0; i < 200; ++i) {
        char byte;
        wrong += read(pipes[0], &byte, 1) != 1;
    }
    struct timespec nap = {0, 2000000}, rest;
    for (int i = 0; i < 100; ++i) {
        burn(0.001);
        wrong += nanosleep(&nap, &rest) != 0;
    }
    for (int i = 0; i < 50; ++i) {
        burn(0.001);
        wrong += usleep(1000) != 0;
        wrong += select(0, NULL, NULL, NULL, &(struct timeval){0, 1000}) != 0;
    }
    printf("%d calls interrupted, child %d\n", wrong, ended(child));
    return 0;
}
static int stopped(int count, char** words) {
    (void)count, (void)words;
    pid_t child = fork();
    if (!child) {
        burn(0.5);
        _exit(8);
    }
    int stops = 0, status;
    for (int i = 0; i < 30; ++i) {
        kill(child, SIGSTOP);
        waitpid(child, &status, WUNTRACED);
        stops += WIFSTOPPED(status);
        kill(child, SIGCONT);
        usleep(6000);
    }
    printf("%d stops, child %d\n", stops, ended(child));
    return 0;
}
// The program profiles itself, as gprof does.
static int own_profiler(int count, char** words) {
    (void)count, (void)words;
    struct sigaction action = {.sa_handler = count_it, .sa_flags = SA_RESTART}, found;
    sigaction(SIGPROF, &action, NULL);
    struct itimerval every = {{0, 10000}, {0, 10000}}, read_back;
    setitimer(ITIMER_PROF, &every, NULL);
    burn(1.0);
    getitimer(ITIMER_PROF, &read_back);
    sigaction(SIGPROF, NULL, &found);
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
    int ticks = heard;
    printf("some 100 ticks: %d, interval %ld, handler %d, flags %x\n", ticks > 70 && ticks < 120, (long)read_back.it_interval.tv_usec,
           found.sa_handler == count_it, found.sa_flags & ~0x04000000);
    signal(SIGPROF, SIG_IGN);
    setitimer(ITIMER_PROF, &every, NULL);
    burn(0.1);
    printf("ignored: %d\n", heard == ticks);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        signal(SIGPROF, SIG_DFL);
        setitimer(ITIMER_PROF, &every, NULL);
        burn(1);
        _exit(0);
    }
    printf("by default: %d\n", ended(child));
    return 0;
}
// A parent that traces sees our signal as any debugger does, and passes it on; one that sees only its own events must not hang.
static int traced(int count, char** words) {
    (void)count, (void)words;
    pid_t child = fork();
    if (!child) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        burn(0.5);
        _exit(8);
    }
    int status;
    waitpid(child, &status, 0);
    ptrace(PTRACE_CONT, child, 0, 0);
    for (;;) {
        waitpid(child, &status, 0);
        if (!WIFSTOPPED(status)) break;
        ptrace(PTRACE_CONT, child, 0, WSTOPSIG(status));
    }
    printf("child %d\n", WEXITSTATUS(status));
    return 0;
}
static int queue_limit(int count, char** words) {
    (void)count, (void)words;
    setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){0, 0});
    pthread_t thread;
    for (int i = 0; i < 3; ++i) {
        pthread_create(&thread, NULL, blocks_all, NULL);
        pthread_join(thread, NULL);
    }
    burn(0.3);
    errno = 0;
    int sent = sigqueue(getpid(), SIGURG, (union sigval){.sival_int = 1});
    printf("%d %d\n", sent, errno);
    return 0;
}
// Each way to die by a signal is the parent's to see, core or not.
static int deaths(int count, char** words) {
    (void)count, (void)words;
    volatile int zero = 0;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    const int ways[] = {SIGTERM, SIGKILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGPROF, SIGSYS, SIGALRM, SIGTRAP, SIGRTMIN + 3};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
        pid_t child = fork();
        if (!child) {
            burn(0.02);
            if (ways[i] == SIGSEGV) *(volatile int*)8 = 1;
            if (ways[i] == SIGFPE) printf("%d", heard / zero);
            if (ways[i] == SIGABRT) abort();
            raise(ways[i]);
            burn(0.1);
            _exit(0);
        }
        printf("%d ", ended(child));
    }
    puts("");
    return 0;
}

int main(int count, char** words) {
    static const struct scene scenes[] = {{"block-all", block_all},     {"blocked-thread", blocked_thread}, {"suspended", suspended},
                                          {"interrupted", interrupted}, {"stopped", stopped},               {"own-profiler", own_profiler},
                                          {"traced", traced},           {"queue-limit", queue_limit},       {"deaths", deaths}};
    return RUN(scenes, count, words);
}
