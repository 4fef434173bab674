// Other users, other roots, other namespaces, sandboxes: what a server or a container's runtime does before it works.
#include "scenes.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/stat.h>

static void* works(void* unused) {
    burn(0.6);
    return unused;
}
// Works, in a thread of its own and in a child as well.
static int work(const char* what, int result) {
    burn(0.8);
    pthread_t thread;
    pthread_create(&thread, NULL, works, NULL);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (!child) {
        burn(0.6);
        _exit(5);
    }
    printf("%s %d, uid %d, child %d\n", what, result, (int)getuid(), ended(child));
    return 0;
}
static int other_user(int count, char** words) {
    (void)count, (void)words;
    burn(0.2);
    return work("setuid", setgid(33) || setuid(33));
}
static int other_user_at_once(int count, char** words) { return (void)count, (void)words, work("setuid", setgid(33) || setuid(33)); }
static int back_and_forth(int count, char** words) {
    (void)count, (void)words;
    int wrong = 0;
    for (int i = 0; i < 50; ++i) {
        wrong += seteuid(33) != 0;
        burn(0.005);
        wrong += seteuid(0) != 0;
        burn(0.005);
    }
    return work("seteuid", wrong);
}
static int other_root(int count, char** words) {
    (void)count, (void)words;
    mkdir("jail", 0755);
    return work("chroot", chroot("jail") || chdir("/"));
}
static int pivots(int count, char** words) {
    (void)count, (void)words;
    int made = unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    mkdir("root", 0755);
    made = made || mount("none", "root", "tmpfs", 0, NULL) || mkdir("root/old", 0755) || syscall(SYS_pivot_root, "root", "root/old") || chdir("/");
    made = made || umount2("/old", MNT_DETACH);
    return work("pivot_root", made);
}
static int namespaces(int count, char** words) {
    (void)count, (void)words;
    return work("unshare", unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS));
}
static int hides_proc(int count, char** words) {
    (void)count, (void)words;
    int made = unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", "/proc", "tmpfs", 0, NULL);
    return work("no /proc", made);
}
static int strict(int count, char** words) {
    (void)count, (void)words;
    burn(0.3);
    puts("before");
    fflush(stdout);
    syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    spin(400000000);
    if (write(1, "after\n", 6) != 6) return 1;
    for (;;) syscall(SYS_exit, 4);
}
// A filter that lets nothing through but what is listed, entered by a raw system call.
static int filtered(int count, char** words) {
    (void)count, (void)words;
    static const int allowed[] = {SYS_write, SYS_exit_group, SYS_clock_gettime, SYS_rt_sigreturn};
    struct sock_filter filter[16] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int used = 1;
    for (int i = 0; i < 4; ++i) {
        filter[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
        filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {(unsigned short)used, filter};
    burn(0.3);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    long set = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    spin(400000000);
    char text[] = "set 0\n";
    text[4] += (char)set;
    if (write(1, text, 6) != 6) return 1;
    _exit(3);
}

int main(int count, char** words) {
    static const struct scene scenes[] = {{"other-user", other_user}, {"other-user-at-once", other_user_at_once}, {"back-and-forth", back_and_forth},
                                          {"other-root", other_root}, {"pivots", pivots}, {"namespaces", namespaces}, {"hides-proc", hides_proc},
                                          {"strict", strict}, {"filtered", filtered}};
    return RUN(scenes, count, words);
}
