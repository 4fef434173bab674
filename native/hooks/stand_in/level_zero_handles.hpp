// The objects of Level Zero that a program makes. All under the lock (Guard).
#pragma once
#include "hooks/shared/intel_code.hpp"
#include "hooks/stand_in/level_zero_api.hpp"

namespace aiflame::level_zero {

// Held for a few lines, and for queries to the driver that do not wait.
struct Guard {
  Guard() noexcept;
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
};

// In the child of a fork, which cannot use the driver's objects.
void forget_objects() noexcept;

// A device's clock counts cycles, and those of kernels may have fewer bits.
class Clock {
 public:
  void start(const Api& api, Handle device, const DeviceProperties& properties) noexcept;
  // Reads it, unless it was read a moment ago.
  void read(const Api& api) noexcept;
  uint64_t to_monotonic(uint64_t stamp) const noexcept;
  bool known() const noexcept { return at_ns_; }

 private:
  Handle device_ = 0;
  double ns_a_cycle_ = 1;
  uint64_t mask_ = ~0ull;
  uint64_t at_ns_ = 0, at_cycles_ = 0;
};

struct Device {
  Handle handle;
  char name[sizeof(DeviceProperties::name) + 16];
  Clock clock;
  uint32_t address_era;  // the recording that has its PCI address
};
// nullptr: there are too many.
Device* device(const Api& api, Handle handle) noexcept;

enum class Kind : uint32_t { GONE = 1, POOL, EVENT, LIST, QUEUE, KERNEL, MODULE, GRAPH, EXECUTABLE };

struct Object {
  Handle handle;
  Kind kind;
  uint32_t flags;         // of a pool, as the program requested
  bool timestamps;        // of a pool and an event
  bool counts;            // of an event that is never reset, and whose time stamps are for us alone
  uint32_t signaled_by;   // for an event: the command in flight that signals it
  uint32_t stream;        // of a queue and of an immediate list: unique in the process
  uint32_t first, last;   // of a list: its commands
  bool executed;          // of a list: once at least, as it is now
  uint32_t chain;         // of graphs, and of a list that records into one: level_zero_graphs.hpp
  bool immediate;         // a list that is a queue, too
  bool synchronous;       // a thread that submits work to it waits for the work
  Device* device;         // of a list and a module
  Handle context;         // of a list
  uint32_t group[3];      // of a kernel
  intel_code::Load load;  // of a module
};
// The object of that kind; nullptr: we have not seen its creation.
Object* find(Kind kind, Handle handle) noexcept;
// A new object, which replaces one with the same handle; nullptr: there are too many.
Object* add(Kind kind, Handle handle) noexcept;
void remove(Object& object) noexcept;

// Events of our own, for commands to which the program gives none. 0: none is left.
Handle take_event(const Api& api, Handle context) noexcept;
// Returns an event, which the caller has reset.
void give_back_event(Handle context, Handle event) noexcept;
// The context is about to be destroyed, with all its events.
void end_events(const Api& api, Handle context) noexcept;

}  // namespace aiflame::level_zero
