// Waits in read() for alarms of its own, whose handler ends the call, and prints how many did not.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static void on_alarm(int signal) { (void)signal; }

int main(void) {
  int pipes[2], lost = 0;
  char byte;
  struct sigaction action = {.sa_handler = on_alarm};
  if (pipe(pipes) || sigaction(SIGALRM, &action, NULL)) return 1;
  for (int round = 0; round < 200; round++) {
    // A second one, lest a lost end of the call hang the program.
    struct itimerval soon = {.it_value = {0, 10000}, .it_interval = {0, 300000}};
    struct timeval begin, end;
    gettimeofday(&begin, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    if (read(pipes[0], &byte, 1) != -1 || errno != EINTR) lost++;
    gettimeofday(&end, NULL);
    if ((end.tv_sec - begin.tv_sec) * 1000000 + end.tv_usec - begin.tv_usec > 200000) lost++;
  }
  printf("%d\n", lost);
  return 0;
}
