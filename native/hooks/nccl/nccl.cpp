// Calls of NCCL → `calls`, communicators → `groups`: by its profiler plugin, which NCCL_PROFILER_PLUGIN names (native/agent).
//
// NCCL reports a collective when it hands it to the device, with the algorithm that it chose. A row is the host's part of the collective;
// the device's part is in `kernels`. We ask NCCL for no events from its proxy threads and kernels: those cost time.
#include "base/large.hpp"
#include "hooks/nccl/api.hpp"
#include "hooks/shared/caller.hpp"
#include "hooks/shared/exported.hpp"
#include "records/calls.hpp"
#include "spool/control.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>

AIFLAME_EXPORT bool aiflame_nccl_plugin(int version, aiflame::nccl::Plugin* plugin) noexcept;

namespace aiflame::nccl {

namespace {

using schema::CallBackend;

bool traced() noexcept { return control::recording() && control::has(schema::Feature::TRACE_NCCL); }

// --- Communicators -------------------------------------------------------------------------------------------------------

// NCCL's `context`. Before version 4 NCCL describes the communicator in each event, not here.
struct Communicator {
  std::atomic<bool> taken;
  uint64_t hash;  // 0: unknown
  uint32_t rank, size;
  char name[64];
};
AIFLAME_LARGE constinit Communicator communicators[512];

Communicator* take_communicator() noexcept {
  for (Communicator& one : communicators)
    if (!one.taken.load(std::memory_order_relaxed) && !one.taken.exchange(true)) return &one;
  return nullptr;
}

// The hash is that of all its ranks, of which several may be in one process.
uint32_t group_of(uint64_t hash, uint32_t rank, uint32_t size, const char* name) noexcept {
  if (!hash) return 0;
  uint64_t handle = hash + rank * 0x9e3779b97f4a7c15;
  if (uint32_t known = calls::find_group(CallBackend::NCCL, handle)) return known;
  char text[128];
  int length = snprintf(text, sizeof text, "%016llx%s%.64s", static_cast<unsigned long long>(hash), name && *name ? " " : "", name ? name : "");
  return calls::add_group(
      {.backend = CallBackend::NCCL, .handle = handle, .rank = rank, .size = size, .name = {text, static_cast<size_t>(length)}, .members = {}});
}

// --- The content of an event ---------------------------------------------------------------------------------------------

struct Operation {
  const char* function = nullptr;  // nullptr: an event that is none of ours
  const char *algorithm = nullptr, *protocol = nullptr;
  unsigned channels = 0;
  uint64_t bytes = 0;
  int peer = -1;
  uint64_t communicator = 0;  // 0: that of the context
  const char* name = nullptr;
};

template <size_t N>
const char* entry(const char* const (&names)[N], unsigned at) noexcept {
  return at < N ? names[at] : "?";
}
const char* function_text(uint8_t number) noexcept { return entry(kFunctions, number); }
const char* function_text(const char* text) noexcept { return text ? text : "?"; }
const char* algorithm_text(uint8_t number) noexcept { return entry(kAlgorithms, number); }
const char* algorithm_text(const char* text) noexcept { return text; }
const char* protocol_text(uint8_t number) noexcept { return entry(kProtocols, number); }
const char* protocol_text(const char* text) noexcept { return text; }
uint64_t type_bytes(uint8_t number) noexcept { return number < std::size(kTypes) ? kTypes[number].bytes : 0; }
uint64_t type_bytes(const char* name) noexcept {
  for (const Type& type : kTypes)
    if (name && strcmp(type.name, name) == 0) return type.bytes;
  return 0;
}

bool has_root(const char* function) noexcept {
  return strcmp(function, "Broadcast") == 0 || strcmp(function, "Reduce") == 0 || strcmp(function, "Gather") == 0 || strcmp(function, "Scatter") == 0;
}

template <class Of>
Operation operation_of(const Of& of, int peer) noexcept {
  Operation operation{.function = function_text(of.function), .bytes = of.count * type_bytes(of.type), .peer = peer};
  if constexpr (requires { of.communicator; }) {
    operation.communicator = of.communicator;
    operation.name = of.name;
  }
  return operation;
}

template <class Event>
Operation read(const Event& event) noexcept {
  constexpr bool kHasGroupCalls = sizeof event.kind == 8;
  if (event.kind == (kHasGroupCalls ? kGroupCall : kGroup)) return {.function = "Group"};
  if (event.kind == kPeerToPeer) return operation_of(event.peer_to_peer, event.peer_to_peer.peer);
  if (event.kind != kCollective) return {};
  const auto& of = event.collective;
  Operation operation = operation_of(of, has_root(function_text(of.function)) ? of.root : -1);
  operation.algorithm = algorithm_text(of.algorithm);
  operation.protocol = protocol_text(of.protocol);
  operation.channels = of.channels;
  return operation;
}

// `ncclAllReduce RING LL128 8ch`: calls with different algorithms, protocols or channels count as different functions.
calls::Function* function_of(const Operation& operation) noexcept {
  char text[128];
  int length = operation.algorithm && operation.protocol ? snprintf(text, sizeof text, "nccl%.40s %.20s %.20s %uch", operation.function,
                                                                    operation.algorithm, operation.protocol, operation.channels)
                                                         : snprintf(text, sizeof text, "nccl%.40s", operation.function);
  return calls::named(CallBackend::NCCL, {text, static_cast<size_t>(length)});
}

// --- Events that are under way -------------------------------------------------------------------------------------------

struct Open {
  std::atomic<uint32_t> state;  // 0: free
  Communicator* of;
  calls::Begun begun;
  calls::Function* function;
  calls::Outcome outcome;
};
constexpr uint32_t kFree = 0, kBusy = 1, kOpen = 2;
AIFLAME_LARGE constinit Open events[1024];
constinit std::atomic<uint32_t> next_event{0};

Open* take_event() noexcept {
  uint32_t first = next_event.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t step = 0; step < 64; step++) {
    Open& event = events[(first + step) % std::size(events)];
    uint32_t expected = kFree;
    if (event.state.compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) return &event;
  }
  return nullptr;
}

bool own(Open& event) noexcept {
  uint32_t expected = kOpen;
  return event.state.compare_exchange_strong(expected, kBusy, std::memory_order_acquire);
}

void finish(Open& event, bool failed) noexcept {
  event.outcome.failed = failed;
  calls::end(event.begun, *event.function, event.outcome);
  event.state.store(kFree, std::memory_order_release);
}

void begin(Communicator* of, void** handle, int rank, const Operation& operation, const Registers& caller) noexcept {
  *handle = nullptr;
  if (!operation.function || !traced()) return;
  calls::Function* function = function_of(operation);
  Open* event = function ? take_event() : nullptr;
  if (!event) return;
  event->of = of;
  event->function = function;
  event->outcome = {.bytes = operation.bytes, .peer = operation.peer >= 0 ? static_cast<uint32_t>(operation.peer) : calls::kNoPeer};
  if (operation.communicator)
    event->outcome.group = group_of(operation.communicator, static_cast<uint32_t>(rank), 0, operation.name);
  else if (of)
    event->outcome.group = group_of(of->hash, of->rank, of->size, of->name);
  event->begun = calls::begin(caller, calls::Stack::ALWAYS);
  event->state.store(kOpen, std::memory_order_release);
  *handle = event;
}

// --- The interface -------------------------------------------------------------------------------------------------------

int init_1(void** context, int* mask) noexcept {
  *context = take_communicator();
  *mask = *context && traced() ? static_cast<int>(kGroup | kCollective | kPeerToPeer) : 0;
  return kSuccess;
}

void describe(Communicator& of, uint64_t hash, const char* name, int size, int rank) noexcept {
  of.hash = hash;
  of.rank = static_cast<uint32_t>(rank);
  of.size = static_cast<uint32_t>(size);
  snprintf(of.name, sizeof of.name, "%s", name ? name : "");
  if (traced()) group_of(hash, of.rank, of.size, of.name);
}

int init_4(void** context, int* mask, const char* name, uint64_t hash, int, int size, int rank, void*) noexcept {
  init_1(context, mask);
  if (*context) describe(*static_cast<Communicator*>(*context), hash, name, size, rank);
  return kSuccess;
}

int init_5(void** context, uint64_t hash, int* mask, const char* name, int, int size, int rank, void*) noexcept {
  init_1(context, mask);
  if (*mask) *mask = static_cast<int>(kGroupCall | kCollective | kPeerToPeer);
  if (*context) describe(*static_cast<Communicator*>(*context), hash, name, size, rank);
  return kSuccess;
}

template <class Event>
int start_event(void* context, void** handle, const Event* event) {
  begin(static_cast<Communicator*>(context), handle, event->rank, read(*event), hooks::caller());
  return kSuccess;
}

int stop_event(void* handle) noexcept {
  auto* event = static_cast<Open*>(handle);
  if (event && own(*event)) finish(*event, false);
  return kSuccess;
}

int record_event_state(void*, int, void*) noexcept { return kSuccess; }

// A call that has not ended ends with its communicator: it was aborted.
int finalize(void* context) noexcept {
  auto* of = static_cast<Communicator*>(context);
  if (!of) return kSuccess;
  for (Open& event : events)
    if (event.state.load(std::memory_order_acquire) == kOpen && event.of == of && own(event)) finish(event, true);
  if (of->hash) calls::forget_group(CallBackend::NCCL, of->hash + of->rank * 0x9e3779b97f4a7c15);
  of->hash = 0;
  of->taken.store(false, std::memory_order_release);
  return kSuccess;
}

template <class Init, class Event>
Plugin plugin_of(Init* init, int (*start)(void*, void**, const Event*)) noexcept {
  return {.name = "aiflame",
          .init = reinterpret_cast<void*>(init),
          .start_event = reinterpret_cast<void*>(start),
          .stop_event = reinterpret_cast<void*>(stop_event),
          .record_event_state = reinterpret_cast<void*>(record_event_state),
          .finalize = reinterpret_cast<void*>(finalize)};
}

}  // namespace

}  // namespace aiflame::nccl

// False: a version that we do not know.
bool aiflame_nccl_plugin(int version, aiflame::nccl::Plugin* plugin) noexcept {
  using namespace aiflame::nccl;
  switch (version) {
    case 1:
      *plugin = plugin_of(init_1, start_event<Event1>);
      return true;
    case 2:
      *plugin = plugin_of(init_1, start_event<Event2>);
      return true;
    case 3:
      *plugin = plugin_of(init_1, start_event<Event3>);
      return true;
    case 4:
      *plugin = plugin_of(init_4, start_event<Event4>);
      return true;
    case 5:
      *plugin = plugin_of(init_5, start_event<Event5>);
      return true;
    default:
      return false;
  }
}
