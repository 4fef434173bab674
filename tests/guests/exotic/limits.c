// Limits and descriptors: closed, none left, small files, little CPU time, no new processes, no time stamp counter.
#include "scenes.h"
#include <sys/stat.h>

static int closes_all(int count, char** words) {
    (void)count, (void)words;
    int wrong = 0;
    for (int i = 0; i < 300; ++i) {
        for (int descriptor = 3; descriptor < 200; ++descriptor) close(descriptor);
        wrong += open("/dev/null", O_RDONLY) != 3;
        burn(0.003);
    }
    syscall(SYS_close_range, 3, ~0U, 0);
    printf("%d descriptors not the lowest\n", wrong);
    return 0;
}
static int closes_standard(int count, char** words) {
    (void)count, (void)words;
    int kept = dup(1);
    for (int descriptor = 0; descriptor < 3; ++descriptor) close(descriptor);
    burn(0.3);
    int first = open("/dev/null", O_RDWR), second = open("/dev/null", O_RDWR);
    dup2(kept, 5);
    dprintf(5, "%d %d\n", first, second);
    return 0;
}
static int none_left(int count, char** words) {
    (void)count, (void)words;
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3});
    burn(1);
    printf("open: %d\n", open("/dev/null", O_RDONLY));
    return 0;
}
static int table_full(int count, char** words) {
    (void)count, (void)words;
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){256, 256});
    int opened = 0;
    while (open("/dev/null", O_RDONLY) >= 0) opened++;
    burn(1);
    printf("%d until %d\n", opened, errno);
    return 0;
}
static int small_files(int count, char** words) {
    (void)count, (void)words;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
    burn(0.8);
    puts("no SIGXFSZ");
    fflush(stdout);
    int file = open("big", O_CREAT | O_WRONLY, 0600);
    static const char text[600];
    for (int i = 0; i < 3; ++i) printf("%ld\n", (long)write(file, text, sizeof text)), fflush(stdout);
    return 0;
}
static int cpu_limit(int count, char** words) {
    (void)count, (void)words;
    setrlimit(RLIMIT_CPU, &(struct rlimit){1, 3});
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    burn(5);
    puts("never reached");
    return 0;
}
static int no_processes(int count, char** words) {
    (void)count, (void)words;
    if (getuid() == 0 && (setgid(12345) || setuid(12345))) return 2;
    setrlimit(RLIMIT_NPROC, &(struct rlimit){1, 1});
    burn(0.5);
    errno = 0;
    pid_t child = fork();
    printf("fork %d %d\n", child, errno);
    return 0;
}
static int no_tsc(int count, char** words) {
    (void)count, (void)words;
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    spin(600000000);
    int found;
    prctl(PR_GET_TSC, &found);
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
    printf("%d\n", found == PR_TSC_SIGSEGV);
    return 0;
}
static int not_dumpable(int count, char** words) {
    (void)count, (void)words;
    prctl(PR_SET_DUMPABLE, 0);
    burn(0.6);
    pid_t child = fork();
    if (!child) {
        burn(0.1);
        _exit(3);
    }
    printf("%d %d\n", prctl(PR_GET_DUMPABLE), ended(child));
    return 0;
}
static int odd_name(int count, char** words) {
    (void)count, (void)words;
    prctl(PR_SET_NAME, "\xff\x1b[31mred\n\x07");
    burn(0.5);
    char name[17] = "";
    prctl(PR_GET_NAME, name);
    printf("%02x%02x\n", name[0] & 255, name[1] & 255);
    return 0;
}

int main(int count, char** words) {
    static const struct scene scenes[] = {{"closes-all", closes_all}, {"closes-standard", closes_standard}, {"none-left", none_left}, {"table-full", table_full},
                                          {"small-files", small_files}, {"cpu-limit", cpu_limit}, {"no-processes", no_processes}, {"no-tsc", no_tsc}, {"not-dumpable", not_dumpable}, {"odd-name", odd_name}};
    return RUN(scenes, count, words);
}
