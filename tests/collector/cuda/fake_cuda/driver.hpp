// A CUDA driver without a device, for tests: the interface between it and the fake CUPTI.
//
// Kernels take the time that fake_kernel_duration() says and do nothing. Memory is the host's. Objects live as long as the process, so that a use
// after an object's end gives an error instead of a crash.
#pragma once
#include <cuda.h>
#include <driver_types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace fake {

inline constexpr uint64_t kNever = ~uint64_t{0};
// The functions that the vendor's headers do not know yet have numbers so far behind the last that they do.
inline constexpr uint32_t kAfterTheLast = 5;

struct Stream {
  uint32_t id;
  uint64_t busy_until = 0;
  struct Graph* capturing = nullptr;
};

struct Context {
  uint32_t id, device;
  std::atomic<bool> alive{true};
  std::atomic<int> launches{0};  // threads that are inside one
  uint32_t primary_users = 0;
  Stream default_stream{};
  std::vector<Stream*> streams{};
};

struct Module {
  uint32_t id;
  uint64_t crc;
  std::string image;
  Context* context;
};

struct Function {
  std::string name;
  Module* module;
  uint64_t duration;
};

struct Dimensions {
  uint32_t grid[3], block[3], shared;
};

// Work of the device, past or present.
struct Work {
  enum Kind { NOTHING, KERNEL, COPY, PEER_COPY, SET, MEMORY } kind = NOTHING;
  uint32_t detail = 0;  // the vendor's number of the kind of copy or operation
  uint32_t correlation = 0;
  Context* context = nullptr;
  uint32_t stream = 0, to_device = 0;
  uint64_t start = 0, end = 0, bytes = 0, address = 0;
  uint64_t node = 0;
  Function* function = nullptr;
  Dimensions dimensions{};
  bool pinned = false;  // memory of the machine
};

struct Node {
  uint64_t id;
  CUgraphNodeType type;
  Work work{};
  struct Graph* child = nullptr;
  Node* original = nullptr;
  bool heard = false;
};

struct Event {
  uint64_t done_at = 0;
};

struct Graph {
  std::vector<Node*> nodes{};
  Graph* original = nullptr;
};

enum class Interface : uint8_t { DRIVER, RUNTIME };

struct Call {
  Interface interface;
  uint32_t id;  // CUPTI_DRIVER_TRACE_CBID_… or CUPTI_RUNTIME_TRACE_CBID_…
  const char* name;
  const void* parameters;
  CUresult* result = nullptr;
  Context* context;
  const char* symbol = nullptr;
  uint32_t correlation = 0;  // 0: the listener gives it one; a call inside of one of the runtime's has the outer one's
  uint64_t data = 0;
};

// The fake CUPTI's ears.
struct Listener {
  void (*enter)(Call& call);
  void (*leave)(Call& call);
  void (*resource)(uint32_t id, Context* context, Stream* stream, void* descriptor);
  void (*work)(const Work& work);
};

struct Driver {
  bool (*listen)(const Listener* listener);    // false: another copy of CUPTI has the driver
  void (*unlisten)(const Listener* listener);  // it lets go
  uint64_t (*now)();                           // the device's clock: CLOCK_MONOTONIC plus a day, so that nobody takes it for another
  bool (*gone)();                              // the process ends and the driver has shut down
  uint32_t (*devices)();
  bool (*may_break_captures)();  // the calling thread's calls, since it has not said otherwise
};

[[noreturn]] void wrong(const char* format, ...) __attribute__((format(printf, 1, 2)));
long setting(const char* name, long otherwise);

// Parts of the driver.
namespace driver {
CUresult usable();
Context* current();
Stream* stream_of(CUstream handle);
void perform(Work work, Stream* stream);
uint64_t now();
uint64_t next_id();
bool heard();  // somebody listens
void announce(uint32_t id, Context* context, Stream* stream, void* descriptor);
CUresult call(Call one, CUresult (*body)(void*), void* argument);

// Runs `body` as the function `name` of the driver's API: between CUPTI's two callbacks.
template <class Body>
CUresult api(uint32_t id, const char* name, const void* parameters, Body body, const char* symbol = nullptr) {
  Call one{.interface = Interface::DRIVER, .id = id, .name = name, .parameters = parameters, .context = current(), .symbol = symbol};
  return call(one, [](void* argument) { return (*static_cast<Body*>(argument))(); }, &body);
}

// The same, of the runtime's.
template <class Body>
cudaError_t runtime(uint32_t id, const char* name, const void* parameters, Body body) {
  Call one{.interface = Interface::RUNTIME, .id = id, .name = name, .parameters = parameters, .context = current()};
  return static_cast<cudaError_t>(call(one, [](void* argument) { return (*static_cast<Body*>(argument))(); }, &body));
}
}  // namespace driver

}  // namespace fake

extern "C" __attribute__((visibility("default"))) const fake::Driver* fake_driver();
