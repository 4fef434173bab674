// Memory: locked, watched by userfaultfd, mapped over the recorder's own pages, protected, all of it taken.
#include "scenes.h"
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>

static int locks(int count, char** words) {
    (void)count, (void)words;
    int locked = mlockall(MCL_CURRENT | MCL_FUTURE);
    burn(0.5);
    char* memory = malloc(8 << 20);
    memset(memory, 1, 8 << 20);
    printf("%d %d\n", locked, memory[12345]);
    return 0;
}
// With a limit on locked memory, as an ordinary user has it.
static int locks_little(int count, char** words) {
    (void)count, (void)words;
    setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){64 << 20, 64 << 20});
    if (getuid() == 0 && (setgid(33) || setuid(33))) return 2;
    int locked = mlockall(MCL_FUTURE);
    burn(0.5);
    long mapped = 0;
    while (mapped < 256 && mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) mapped++;
    printf("locked %d, more than 40 MB could be mapped: %d\n", locked, mapped > 40);
    return 0;
}

static void* serves(void* passed) {
    int descriptor = *(int*)passed;
    static char page[4096];
    memset(page, 42, sizeof page);
    for (;;) {
        struct uffd_msg message;
        if (read(descriptor, &message, sizeof message) != sizeof message) return NULL;
        struct uffdio_copy copy = {.dst = message.arg.pagefault.address & ~4095ul, .src = (uintptr_t)page, .len = 4096};
        burn(0.0005);
        ioctl(descriptor, UFFDIO_COPY, &copy);
    }
}
static int user_faults(int count, char** words) {
    (void)count, (void)words;
    int descriptor = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (descriptor < 0) return printf("userfaultfd %d\n", errno), 0;
    struct uffdio_api api = {.api = UFFD_API};
    ioctl(descriptor, UFFDIO_API, &api);
    char* memory = mmap(NULL, 1000 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {.range = {(uintptr_t)memory, 1000 * 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    ioctl(descriptor, UFFDIO_REGISTER, &all);
    pthread_t thread;
    pthread_create(&thread, NULL, serves, &descriptor);
    long sum = 0;
    for (int i = 0; i < 1000; ++i) sum += memory[i * 4096];
    printf("%ld\n", sum);
    return 0;
}

// Unmaps what it finds mapped from a profile, or maps other memory there, as a program that owns its address space may.
static int takes_pages(int flags) {
    struct { unsigned long begin, end; } found[512];
    int many = 0;
    char line[600];
    FILE* maps = fopen("/proc/self/maps", "r");
    while (many < 512 && fgets(line, sizeof line, maps))
        if (strstr(line, ".table") || strstr(line, "/control")) many += sscanf(line, "%lx-%lx", &found[many].begin, &found[many].end) == 2;
    fclose(maps);
    for (int i = 0; i < many; ++i) {
        if (flags) mmap((void*)found[i].begin, found[i].end - found[i].begin, PROT_READ | PROT_WRITE, flags, -1, 0);
        else munmap((void*)found[i].begin, found[i].end - found[i].begin);
    }
    burn(0.6);
    pthread_t thread;
    pthread_create(&thread, NULL, (void* (*)(void*))(void (*)(void))usleep, (void*)1000);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (!child) {
        burn(0.1);
        _exit(3);
    }
    printf("child %d\n", ended(child));
    return 0;
}
static int unmaps(int count, char** words) { return (void)count, (void)words, takes_pages(0); }
static int maps_over(int count, char** words) { return (void)count, (void)words, takes_pages(MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS); }
static int read_only(int count, char** words) {
    (void)count, (void)words;
    unsigned long begin, end;
    char line[600];
    FILE* maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if ((strstr(line, ".table") || strstr(line, "/control")) && sscanf(line, "%lx-%lx", &begin, &end) == 2) mprotect((void*)begin, end - begin, PROT_READ);
    fclose(maps);
    burn(0.6);
    puts("pages made read-only");
    return 0;
}
static int address_space(int count, char** words) {
    (void)count, (void)words;
    burn(0.1);
    setrlimit(RLIMIT_AS, &(struct rlimit){300 << 20, 300 << 20});
    long got = 0;
    while (malloc(1 << 20)) got++;
    burn(0.5);
    printf("more than 200 MB: %d\n", got > 200);
    return 0;
}
static int many_maps(int count, char** words) {
    (void)count, (void)words;
    int many = 0;
    for (; many < 60000; ++many)
        if (mmap(NULL, 4096, many % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
    burn(0.5);
    printf("%d maps\n", many);
    return 0;
}
static int guard_everywhere(int count, char** words) {
    (void)count, (void)words;
    long good = 0;
    for (int i = 0; i < 200; ++i) {
        char* memory = mmap(NULL, 3 << 12, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(memory + 4096, 4096, PROT_READ | PROT_WRITE);
        memory[4096] = 1;
        burn(0.002);
        good += memory[4096];
        munmap(memory, 3 << 12);
    }
    printf("%ld\n", good);
    return 0;
}

int main(int count, char** words) {
    static const struct scene scenes[] = {{"locks", locks},         {"locks-little", locks_little}, {"user-faults", user_faults},     {"unmaps", unmaps},
                                          {"maps-over", maps_over}, {"read-only", read_only},       {"address-space", address_space}, {"many-maps", many_maps},
                                          {"guards", guard_everywhere}};
    return RUN(scenes, count, words);
}
