// The thread that runs commands, and the log that it leaves.
#include "ze_device.hpp"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <thread>

namespace sleeper {

std::mutex mutex;
std::condition_variable changed;
std::set<Thing*> living;

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}
static const uint64_t start_ns = now_ns();
// 50 ms before the clock of kernels wraps, for the third time.
uint64_t cycles(uint64_t ns) { return 3 * kWrap - kHertz / 20 + (ns - start_ns) * kHertz / 1'000'000'000; }

[[noreturn]] static void broken(const char* what) {
  fprintf(stderr, "driver: %s\n", what);
  abort();
}
void expect(bool right, const char* what) {
  if (!right) broken(what);
}

namespace {

struct Ran {
  std::string name;
  uint64_t begin_ns, end_ns;
};
std::vector<Ran> ran;
std::deque<Command> waiting;
bool busy = false, ending = false;

void run_device() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [] { return ending || !waiting.empty(); });
    if (waiting.empty()) return;
    Command command = waiting.front();
    waiting.pop_front();
    busy = true;
    if (command.resets) command.resets->signaled = false;
    uint64_t begin = now_ns();
    lock.unlock();
    timespec time{command.ms / 1000, command.ms % 1000 * 1'000'000};
    nanosleep(&time, nullptr);
    lock.lock();
    uint64_t end = now_ns();
    if (!command.name.empty()) ran.push_back({command.name, begin, end});
    if (Event* event = command.signals) {
      expect(living.count(event), "an event that is gone is signaled");
      expect(!event->signaled || command.repeats, "an event is signaled by two commands");
      if (!event->counts || event->last == command.number) {
        event->signaled = true;
        event->begin = cycles(begin) % kWrap;
        event->end = cycles(end) % kWrap;
      }
    }
    busy = false;
    changed.notify_all();
  }
}
std::thread device_thread;

struct End {
  ~End() {
    {
      std::lock_guard lock(mutex);
      ending = true;
      changed.notify_all();
    }
    if (device_thread.joinable()) device_thread.join();
    FILE* log = getenv("ZE_DRIVER_LOG") ? fopen(getenv("ZE_DRIVER_LOG"), "w") : nullptr;
    for (const Ran& one : ran)
      if (log) fprintf(log, "%s %llu %llu\n", one.name.c_str(), (unsigned long long)one.begin_ns, (unsigned long long)one.end_ns);
    if (log) fclose(log);
  }
} at_the_end;

}  // namespace

Device the_device, second_device;
Driver the_driver;

void start_device() { device_thread = std::thread(run_device); }
void submit(const Command& command) {
  static uint64_t last = 0;
  waiting.push_back(command);
  waiting.back().number = ++last;
  if (!command.signals || !command.signals->counts) return changed.notify_all();
  command.signals->signaled = false;
  command.signals->last = last;
  changed.notify_all();
}
bool is_idle() { return waiting.empty() && !busy; }
void drain(std::unique_lock<std::mutex>& lock) { changed.wait(lock, is_idle); }

}  // namespace sleeper
