// Calls of runtimes that are traced → `calls`, `call_names` and `groups`.
//
// A backend stands before or behind a function of its runtime and says when a call begins and how it ended:
//
//     static calls::Function function(CallBackend::MPI, "MPI_Send");
//     calls::Begun begun = calls::begin(caller(), calls::Stack::ALWAYS);
//     int result = real(…);
//     calls::end(begun, function, {.result = result, .failed = result != 0, .bytes = …});
//
// end() writes the row. A call that is under way when the process ends has none.
#pragma once
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "unwind/frames.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

namespace aiflame::calls {

// A function whose calls are traced, with its row of `call_names` in the present recording. Each function has one object, which is never freed.
class Function {
 public:
  constexpr Function(schema::CallBackend backend, std::string_view name) noexcept : backend_(backend), name_(name) {}
  uint32_t row(const control::Use& use) noexcept;

 private:
  schema::CallBackend backend_;
  std::string_view name_;
  std::atomic<uint64_t> row_{0};  // the number of the recording, and the row
};

// A new object for a name, which exists as long as the process. nullptr: there is no memory.
Function* make(schema::CallBackend backend, std::string_view name) noexcept;

// For names that are not constants: the object for a name, made at its first call. nullptr: there are too many names.
Function* named(schema::CallBackend backend, std::string_view name) noexcept;

// Whether begin() captures a stack: for calls whose stack comes from elsewhere / for frequent calls / for rare calls that matter, such as
// collectives.
enum class Stack { NONE, ON_REQUEST, ALWAYS };

// A call that has begun. It may end in another thread.
struct Begun {
  uint64_t begin_ns;
  uint32_t recording;  // 0: the call is not traced
  uint32_t thread, stack;
  torch_autograd::Point point;
};
Begun begin(const Registers& caller, Stack stack) noexcept;

inline constexpr uint32_t kNoPeer = ~0u;
struct Outcome {
  int64_t result = 0;
  bool failed = false;
  schema::CallKind kind = schema::CallKind::BLOCKING;
  uint64_t bytes = 0;
  uint32_t group = 0;
  uint32_t peer = kNoPeer;
};
void end(const Begun& begun, Function& function, const Outcome& outcome) noexcept;
// The same for a call that ended earlier, at `end_ns`.
void end_at(const Begun& begun, Function& function, const Outcome& outcome, uint64_t end_ns) noexcept;

// A group of communicating processes. `handle` is the runtime's own name for it in this process.
struct Group {
  schema::CallBackend backend;
  uint64_t handle;
  uint32_t rank, size;
  std::string_view name;
  std::span<const uint32_t> members;  // their ranks in the job; empty: all ranks, or unknown
};
// Row of the group in this recording, 0 if it was never added.
uint32_t find_group(schema::CallBackend backend, uint64_t handle) noexcept;
uint32_t add_group(const Group& group) noexcept;
// The runtime may use the handle for another group.
void forget_group(schema::CallBackend backend, uint64_t handle) noexcept;

// A new recording has empty tables.
void forget_rows() noexcept;

// The interface for our libraries beside the collector, which look it up by name: aiflame_calls() returns it.
struct Interface {
  bool (*traced)(schema::Feature feature) noexcept;
  Begun (*begin)(const Registers& caller, Stack stack) noexcept;
  void (*end)(const Begun& begun, Function& function, const Outcome& outcome) noexcept;
  void (*end_at)(const Begun& begun, Function& function, const Outcome& outcome, uint64_t end_ns) noexcept;
  uint32_t (*find_group)(schema::CallBackend backend, uint64_t handle) noexcept;
  uint32_t (*add_group)(const Group& group) noexcept;
  void (*forget_group)(schema::CallBackend backend, uint64_t handle) noexcept;
};

}  // namespace aiflame::calls
