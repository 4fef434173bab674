// A life of one kind, many times over, with other threads at work meanwhile: life_loops KIND TIMES [ARGUMENT].
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

volatile double sink;
volatile bool over = false;

void burn(long turns) {
  double sum = 0;
  for (long turn = 0; turn < turns; turn++) sum += static_cast<double>(turn) * 0.5;
  sink = sum;
}

void* work(void*) {
  while (!over) burn(100000);
  return nullptr;
}

int failures = 0;

void collect(pid_t pid, int wanted) {
  int status = -1;
  if (pid <= 0 || waitpid(pid, &status, 0) != pid || status != wanted) {
    failures++;
    fprintf(stderr, "child %d ended with %x\n", pid, static_cast<unsigned>(status));
  }
}

void fork_once(int turn) {
  pid_t pid = fork();
  if (pid == 0) {
    burn(300000);
    if (turn % 10 == 0) {  // threads of its own
      pthread_t thread;
      pthread_create(&thread, nullptr, [](void*) -> void* { return burn(300000), nullptr; }, nullptr);
      pthread_join(thread, nullptr);
    }
    if (turn % 2)
      _exit(5);
    else
      exit(5);
  }
  collect(pid, 5 << 8);
}

void spawn_once(int turn, char* self) {
  char zero[] = "0", kind[] = "nothing";
  char* arguments[] = {self, kind, zero, nullptr};
  char* none[] = {nullptr};
  pid_t pid = -1;
  if (turn % 2) {
    posix_spawn(&pid, self, nullptr, nullptr, arguments, none);
  } else if ((pid = vfork()) == 0) {
    execve("/nonexistent", arguments, none);
    execve(self, arguments, none);
    _exit(9);
  }
  collect(pid, 0);
}

// Sampled code that goes away.
void load_once(const char* path) {
  void* library = dlopen(path, RTLD_NOW);
  auto spin = library ? reinterpret_cast<void (*)(long)>(dlsym(library, "spin")) : nullptr;
  if (!spin) {
    failures++;
    return;
  }
  spin(200000);
  dlclose(library);
}

void thread_once() {
  pthread_t threads[4];
  for (pthread_t& thread : threads)
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          burn(50000);
          pthread_exit(nullptr);
        },
        nullptr);
  for (pthread_t& thread : threads) pthread_join(thread, nullptr);
}

}  // namespace

int main(int, char** arguments) {
  std::string kind = arguments[1];
  int times = atoi(arguments[2]);
  if (kind == "exec") {  // the same process, again and again
    burn(300000);
    if (times == 0) return 6;
    std::string left = std::to_string(times - 1);
    pthread_t thread;
    if (times % 4 == 0) pthread_create(&thread, nullptr, work, nullptr);
    execl(arguments[0], arguments[0], "exec", left.c_str(), nullptr);
    return 7;
  }
  if (kind == "nothing") return burn(300000), 0;
  pthread_t workers[2];
  for (pthread_t& worker : workers) pthread_create(&worker, nullptr, work, nullptr);
  for (int turn = 0; turn < times; turn++) {
    if (kind == "fork") fork_once(turn);
    if (kind == "spawn") spawn_once(turn, arguments[0]);
    if (kind == "dlclose") load_once(arguments[3]);
    if (kind == "threads") thread_once();
  }
  over = true;
  for (pthread_t& worker : workers) pthread_join(worker, nullptr);
  printf("failures %d\n", failures);
  return failures ? 1 : 0;
}
