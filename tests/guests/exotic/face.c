// What the kernel and libc tell a program of itself: limits, dispositions, masks, timers, scheduling, descriptors; then a child by exec says the same.
#include "scenes.h"
#include <dirent.h>
#include <sys/stat.h>

static void dispositions(void) {
    for (int number = 1; number < 65; ++number) {
        struct sigaction action;
        if (number == 32 || number == 33 || sigaction(number, NULL, &action)) continue;
        sigset_t mask = action.sa_mask;
        const char* what = action.sa_handler == SIG_DFL ? "default" : action.sa_handler == SIG_IGN ? "ignored" : "handled";
        printf("signal %d: %s, flags %x, mask %d\n", number, what, action.sa_flags & ~0x04000000, !sigisemptyset(&mask));
    }
    sigset_t set;
    sigprocmask(SIG_BLOCK, NULL, &set);
    printf("blocked:");
    for (int number = 1; number < 65; ++number)
        if (sigismember(&set, number) > 0) printf(" %d", number);
    sigpending(&set);
    printf("\npending:");
    for (int number = 1; number < 65; ++number)
        if (sigismember(&set, number) > 0) printf(" %d", number);
    puts("");
}

static void surroundings(void) {
    for (int limit = 0; limit < RLIM_NLIMITS; ++limit) {
        struct rlimit found;
        getrlimit(limit, &found);
        printf("limit %d: %lld %lld\n", limit, (long long)found.rlim_cur, (long long)found.rlim_max);
    }
    for (int timer = 0; timer < 3; ++timer) {
        struct itimerval found;
        getitimer(timer, &found);
        printf("timer %d: %ld %ld\n", timer, (long)found.it_value.tv_sec, (long)found.it_interval.tv_sec);
    }
    printf("dumpable %d, slack %d, subreaper %d, tsc %d, seccomp %d, keepcaps %d\n", prctl(PR_GET_DUMPABLE), prctl(PR_GET_TIMERSLACK),
           prctl(PR_GET_CHILD_SUBREAPER, &(int){0}), prctl(PR_GET_TSC, &(int){0}), prctl(PR_GET_SECCOMP), prctl(PR_GET_KEEPCAPS));
    mode_t mask = umask(0);
    umask(mask);
    printf("umask %o, nice %d, policy %d, errno %d\n", mask, getpriority(PRIO_PROCESS, 0), sched_getscheduler(0), errno);
    DIR* folder = opendir("/proc/self/fd");
    for (struct dirent* entry; (entry = readdir(folder));) {
        char target[256] = "", path[300];
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && atoi(entry->d_name) != dirfd(folder)) {
            char* kept = strrchr(target, '.');
            printf("descriptor %s: %s, flags %d\n", entry->d_name, kept ? kept : target, fcntl(atoi(entry->d_name), F_GETFD));
        }
    }
    closedir(folder);
    folder = opendir("/proc/self/task");
    int threads = -2;
    while (readdir(folder)) threads++;
    closedir(folder);
    printf("%d threads\n", threads);
}

static int alone(int count, char** words) {
    (void)count, (void)words;
    errno = 0;
    dispositions();
    surroundings();
    burn(0.3);
    dispositions();
    surroundings();
    return 0;
}

// What is ignored and blocked when a program starts another is so in the other; what is handled becomes the default.
static int inherited(int count, char** words) {
    if (count > 2) {
        dispositions();
        return 0;
    }
    static const int ignored[] = {SIGCHLD, SIGPROF, SIGSEGV, SIGBUS, SIGSYS, SIGPIPE, SIGTRAP, SIGVTALRM};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; ++i) signal(ignored[i], SIG_IGN);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGPROF);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGSEGV);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    burn(0.2);
    dispositions();
    fflush(stdout);
    execl("/proc/self/exe", words[0], words[1], "again", (char*)NULL);
    return 1;
}

// Nobody waits for the children of a program whose parent ignored SIGCHLD.
static int sigchld(int count, char** words) {
    if (count == 2) {
        signal(SIGCHLD, SIG_IGN);
        execl("/proc/self/exe", words[0], words[1], "again", (char*)NULL);
    }
    struct sigaction action;
    sigaction(SIGCHLD, NULL, &action);
    printf("ignored %d\n", action.sa_handler == SIG_IGN);
    if (!fork()) _exit(3);
    errno = 0;
    int got = wait(NULL);
    printf("wait %d, errno %d\n", got, errno);
    return 0;
}

int main(int count, char** words) {
    static const struct scene scenes[] = {{"alone", alone}, {"inherited", inherited}, {"sigchld", sigchld}};
    return RUN(scenes, count, words);
}
