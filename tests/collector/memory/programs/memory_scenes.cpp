// Uses host memory as a name says; exact sizes, so that a test that samples every allocation knows each row.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr size_t kMega = 1 << 20;

char* map(size_t bytes, char* at = nullptr, int protection = PROT_READ | PROT_WRITE) {
  return static_cast<char*>(mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0));
}

// Blocks of 1001 bytes by 16 threads, each freed by the next thread; 4 of each stay.
int threads() {
  constexpr int kThreads = 16, kBlocks = 200;
  static std::atomic<void*> passed[kThreads][kBlocks];
  std::vector<std::thread> all;
  for (int own = 0; own < kThreads; own++)
    all.emplace_back([own] {
      for (int at = 0; at < kBlocks; at++) passed[own][at] = malloc(1001);
      for (int at = 4; at < kBlocks; at++) {
        void* block;
        while (!(block = passed[(own + 1) % kThreads][at])) sched_yield();
        free(block);
      }
    });
  for (std::thread& thread : all) thread.join();
  return 0;
}

// The child frees its parent's blocks of 1003 bytes and takes 50 of 1005; its parent frees its own afterwards.
int forks() {
  static void* blocks[100];
  for (void*& block : blocks) block = malloc(1003);
  pid_t child = fork();
  for (void* block : blocks) free(block);
  if (child == 0) {
    for (int at = 0; at < 50; at++) blocks[at] = malloc(1005);
    free(blocks[0]);
    return 0;
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

// A chain of sizes 1007, 2007 … 10007, then one that fails.
int reallocs() {
  void* block = nullptr;
  for (size_t size = 1007; size < 11'000; size += 1000) block = realloc(block, size);
  volatile size_t too_much = SIZE_MAX / 4;
  return realloc(block, too_much) ? 1 : 0;
}

// 16 MB of which 4 in the middle go, then 1 at the front; 2 MB that are mapped over; 3 MB that grow to 5; reservations that do not count.
int mappings() {
  char* sixteen = map(16 * kMega);
  munmap(sixteen + 6 * kMega, 4 * kMega);
  munmap(sixteen, kMega);
  char* two = map(2 * kMega);
  map(2 * kMega, two, PROT_NONE);
  char* three = map(3 * kMega);
  mremap(three, 3 * kMega, 5 * kMega, MREMAP_MAYMOVE);
  map(64 * kMega, nullptr, PROT_NONE);
  mmap(nullptr, 64 * kMega, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return 0;
}

// 64 MB that go in 16 pieces; 8 MB of which the last page is asked for in part; 32 MB that calls in vain leave as they are; a reservation that
// grows; all are gone at the end. At no moment are there more than 64 MB.
int pieces() {
  char* whole = map(64 * kMega);
  for (size_t at = 0; at < 16; at++) munmap(whole + at * 4 * kMega, 4 * kMega);
  char* eight = map(8 * kMega);
  munmap(eight, 8 * kMega - 100);
  char* kept = map(32 * kMega);
  int wrong = munmap(kept + 1, 32 * kMega) == 0 || mremap(kept, 32 * kMega, size_t{1} << 60, MREMAP_MAYMOVE) != MAP_FAILED;
  munmap(kept, 32 * kMega);
  char* reserved = map(kMega, nullptr, PROT_NONE);
  auto* grown = static_cast<char*>(mremap(reserved, kMega, 48 * kMega, MREMAP_MAYMOVE));
  munmap(grown, 48 * kMega);
  return wrong;
}

// In a handler, in destructors of threads' variables, and when the program has ended.
pthread_key_t key;
void in_handler(int) { free(malloc(1009)); }
int moments() {
  signal(SIGUSR1, in_handler);
  for (int at = 0; at < 100; at++) raise(SIGUSR1);
  pthread_key_create(&key, [](void* block) {
    free(block);
    free(malloc(1011));
  });
  struct Late {
    ~Late() { free(malloc(1013)); }
  };
  for (int at = 0; at < 10; at++)
    std::thread([] {
      static thread_local Late late;
      static_cast<void>(&late);
      pthread_setspecific(key, malloc(1015));
    }).join();
  atexit([] { free(malloc(1017)); });
  return 0;
}
__attribute__((destructor)) void at_the_end() { free(malloc(1019)); }

// Runs a program by vfork, which uses this process's memory until then.
int vforks() {
  for (int at = 0; at < 20; at++) {
    pid_t child = vfork();
    if (child == 0) {
      free(malloc(1021));
      execl("/bin/true", "true", nullptr);
      _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    if (status) return status;
  }
  return 0;
}

// Forks, allocates in the child's own handler of forks, while other threads allocate.
int forks_among_threads() {
  pthread_atfork([] { free(malloc(1023)); }, nullptr, [] { free(malloc(1025)); });
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  for (int at = 0; at < 4; at++)
    others.emplace_back([&done] {
      while (!done) free(malloc(70'000));
    });
  int wrong = 0;
  for (int at = 0; at < 20; at++) {
    pid_t child = fork();
    if (child == 0) {
      for (int more = 0; more < 100; more++) free(malloc(1027));
      _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    wrong |= status;
  }
  done = true;
  for (std::thread& other : others) other.join();
  return wrong;
}

// Each way to allocate fails once for lack of memory, with its own size, and two for other reasons; then malloc() fails a thousand times more.
int refused() {
  volatile size_t much = SIZE_MAX / 4;
  void* block = malloc(100);
  size_t page = 4096;
  int wrong = 0;
  auto expect = [&wrong](void* result) {
    wrong |= result != nullptr || errno != ENOMEM;
    errno = 0;
  };
  expect(malloc(much));
  expect(calloc(2, much / 2 - page));
  expect(realloc(block, much - 4 * page));
  expect(aligned_alloc(64, much - 6 * page));
  wrong |= posix_memalign(&block, 64, much - 8 * page) != ENOMEM;
  wrong |= posix_memalign(&block, 3, much - 10 * page) != EINVAL;
  wrong |= mmap(nullptr, much - 12 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED || errno != ENOMEM;
  wrong |= mmap(nullptr, much, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1, 0) != MAP_FAILED || errno != EINVAL;
  for (int time = 0; time < 1000; time++) wrong |= malloc(much) != nullptr;
  return wrong;
}

struct Scene {
  const char* name;
  int (*run)();
};
constexpr Scene kScenes[] = {
    {"threads", threads}, {"forks", forks},     {"reallocs", reallocs}, {"mappings", mappings},
    {"pieces", pieces},   {"moments", moments}, {"vforks", vforks},     {"forks_among_threads", forks_among_threads},
    {"refused", refused},
};

}  // namespace

int main(int, char** words) {
  for (const Scene& scene : kScenes)
    if (!strcmp(scene.name, words[1])) return scene.run();
  return 2;
}
