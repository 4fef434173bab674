// The device of the driver of Level Zero: a thread that runs one command after the other, and the objects that a driver hands out.
//
// Its clock ticks at 25 MHz and began at a number of its own; the clocks of kernels have 32 bits of it, and wrap soon after the start.
#pragma once
#include <level_zero/ze_api.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace [[gnu::visibility("hidden")]] sleeper {

inline constexpr uint64_t kHertz = 25'000'000, kWrap = 1ull << 32;

uint64_t now_ns();
uint64_t cycles(uint64_t ns);

// Ends the program unless `right`.
void expect(bool right, const char* what);

extern std::mutex mutex;
extern std::condition_variable changed;

struct Thing {
  virtual ~Thing() = default;
};
extern std::set<Thing*> living;
template <class Type>
Type& the(void* handle) {
  auto* thing = static_cast<Thing*>(handle);
  expect(living.count(thing), "an object that is gone, or never was");
  auto* its = dynamic_cast<Type*>(thing);
  expect(its, "an object of another kind");
  return *its;
}
template <class Handle, class Type>
ze_result_t give(Handle* out, Type* made) {
  living.insert(made);
  *out = reinterpret_cast<Handle>(static_cast<Thing*>(made));
  return ZE_RESULT_SUCCESS;
}
template <class Type>
ze_result_t destroy(void* handle) {
  std::lock_guard lock(mutex);
  Type* thing = &the<Type>(handle);
  living.erase(thing);
  delete thing;
  return ZE_RESULT_SUCCESS;
}

struct Context : Thing {};
struct Device : Thing {};
struct Driver : Thing {};
struct Module : Thing {
  std::vector<uint8_t> file;
  uint64_t address = 0;  // 0: it has no code in the device's memory
  ~Module() override;
};
struct Pool : Thing {
  Context* context;
  ze_event_pool_flags_t flags;
  uint32_t count;
  std::set<uint32_t> taken;
};
struct Event : Thing {
  Pool* pool = nullptr;  // of an event that counts: none
  uint32_t index = 0;
  bool counts = false, host_visible = false, timestamps = false;
  bool signaled = false;
  uint64_t last = 0;  // of an event that counts: the last command that signals it
  uint64_t begin = 0, end = 0;
  ~Event() override {
    if (pool) pool->taken.erase(index);
  }
};
struct Kernel : Thing {
  std::string name;
  uint32_t group = 0;
};
struct Command {
  std::string name;
  long ms;
  Event* signals;
  Event* resets;
  uint64_t number = 0;
  bool repeats = false;  // it was executed before, from the same list
};
struct Queue : Thing {
  bool synchronous = false;
};
struct List : Queue {
  bool immediate = false, in_order = false, closed = false;
  std::vector<Command> commands;
};

extern Device the_device, second_device;  // one thread runs the commands of both
extern Driver the_driver;

// With `mutex` held, but for the first.
void start_device();
void submit(const Command& command);
bool is_idle();
void drain(std::unique_lock<std::mutex>& lock);

}  // namespace sleeper
