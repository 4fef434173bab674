// The parts of NCCL's interface for profiler plugins that we use: versions 1 (NCCL 2.23) to 5 (2.28). A newer NCCL looks for older versions, too.
// Layouts come from ext-profiler/example/nccl/profiler_v*.h.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::nccl {

constexpr int kSuccess = 0;

// Bits of the mask that init() sets, and kinds of events.
constexpr uint64_t kGroup = 1 << 0, kCollective = 1 << 1, kPeerToPeer = 1 << 2;
constexpr uint64_t kGroupCall = 1 << 8;  // since version 5

struct Collective1 {
  const char* name;
  uint64_t communicator, sequence;
  uint8_t function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  uint8_t type;
  uint32_t operation;
  size_t traffic;
  uint8_t channels, warps, algorithm, protocol;
  int collnet, nvls;
};
struct Collective2 {
  const char* name;
  uint64_t communicator, sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  size_t traffic;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct Collective3 {
  const char* name;
  uint64_t communicator, sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};
// Also in version 5.
struct Collective4 {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};

struct PeerToPeer1 {
  const char* name;
  uint64_t communicator;
  uint8_t function;
  void* buffer;
  uint8_t type;
  size_t count;
  int peer;
};
// Also in version 3.
struct PeerToPeer2 {
  const char* name;
  uint64_t communicator;
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
};
// Also in version 5.
struct PeerToPeer4 {
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
  uint8_t channels;
};

// `Kind` is uint8_t up to version 4, then uint64_t. (After uint8_t seven bytes are undefined.)
template <class Kind, class Collective, class PeerToPeer>
struct Event {
  Kind kind;
  void* parent;
  int rank;
  union {
    Collective collective;
    PeerToPeer peer_to_peer;
  };
};
using Event1 = Event<uint8_t, Collective1, PeerToPeer1>;
using Event2 = Event<uint8_t, Collective2, PeerToPeer2>;
using Event3 = Event<uint8_t, Collective3, PeerToPeer2>;
using Event4 = Event<uint8_t, Collective4, PeerToPeer4>;
using Event5 = Event<uint64_t, Collective4, PeerToPeer4>;

// Names by their numbers in version 1.
constexpr const char* kFunctions[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"};
constexpr const char* kAlgorithms[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr const char* kProtocols[] = {"LL", "LL128", "SIMPLE"};

struct Type {
  const char* name;
  uint8_t bytes;
};
constexpr Type kTypes[] = {{"ncclInt8", 1},    {"ncclUint8", 1},    {"ncclInt32", 4},      {"ncclUint32", 4},
                           {"ncclInt64", 8},   {"ncclUint64", 8},   {"ncclFloat16", 2},    {"ncclFloat32", 4},
                           {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}};

// The symbol that NCCL looks for: ncclProfiler_v1 …
struct Plugin {
  const char* name;
  void *init, *start_event, *stop_event, *record_event_state, *finalize;
};

}  // namespace aiflame::nccl
