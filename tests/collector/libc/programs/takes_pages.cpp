// takes_pages protected|unmapped MILLISECONDS: works for so long, takes the recording's pages away, works on, and exits with 5. It asks for no
// memory meanwhile: the kernel would give it the pages that it has just unmapped.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "is_recorded.hpp"

static char maps[1 << 20];

static double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

static void work(double seconds) {
  if (!is_recorded()) return;
  volatile unsigned sum = 0;
  for (double end = now() + seconds; now() < end;)
    for (unsigned round = 0; round < 100'000; round++) sum = sum + round;
}

static bool is_recordings(const char* line) { return strstr(line, ".table") || strstr(line, "/control"); }

static void take(bool unmap) {
  int file = open("/proc/self/maps", O_RDONLY);
  size_t length = 0;
  for (ssize_t got; (got = read(file, maps + length, sizeof maps - 1 - length)) > 0;) length += static_cast<size_t>(got);
  close(file);
  int taken = 0;
  for (char *line = maps, *end; (end = strchr(line, '\n')); line = end + 1) {
    *end = 0;
    char* dash;
    unsigned long begin = strtoul(line, &dash, 16), bytes = strtoul(dash + 1, nullptr, 16) - begin;
    if (!is_recordings(line)) continue;
    taken++;
    if (unmap)
      munmap(reinterpret_cast<void*>(begin), bytes);
    else
      mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ);
  }
  if (is_recorded() && !taken) exit(6);
}

int main(int count, char** words) {
  if (count != 3) return 2;
  work(atof(words[2]) / 1e3);
  take(!strcmp(words[1], "unmapped"));
  work(0.5);
  return 5;
}
