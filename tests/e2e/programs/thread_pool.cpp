// A pool with threads of its own: work handed over from outside runs on them, under their names. Each does some of it.
#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

extern "C" {
#include "spin.c"
}

namespace {

struct Pool {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<int64_t> work;
  int open = 0;
  int idle = 0;  // threads that have not had any work yet
  int64_t took = 0;
  bool stopping = false;
  std::vector<std::thread> threads;

  void pool_main(int number) {
    char name[16] = "pool-0";
    name[5] = static_cast<char>('0' + number);
    pthread_setname_np(pthread_self(), name);
    std::unique_lock lock(mutex);
    for (bool first = true;; first = false) {
      changed.wait(lock, [&] { return stopping || !work.empty(); });
      if (work.empty()) return;
      int64_t ns = work.front();
      work.pop_front();
      if (first) {
        idle--;
        changed.notify_all();
        changed.wait(lock, [&] { return idle == 0; });
      }
      lock.unlock();
      stay told;
      spin(ns, &told);
      lock.lock();
      took += told.cpu_ns;
      open--;
      changed.notify_all();
    }
  }
};

}  // namespace

// Returns the CPU time that the jobs took together.
extern "C" int64_t pool_run(int threads, int jobs, int64_t ns) {
  Pool pool;
  pool.idle = threads;
  for (int i = 0; i < jobs; i++) pool.work.push_back(ns);
  pool.open = jobs;
  for (int i = 0; i < threads; i++) pool.threads.emplace_back([&pool, i] { pool.pool_main(i); });
  {
    std::unique_lock lock(pool.mutex);
    pool.changed.wait(lock, [&] { return pool.open == 0; });
    pool.stopping = true;
  }
  pool.changed.notify_all();
  for (auto& thread : pool.threads) thread.join();
  return pool.took;
}
