// Shared by the stand-in's two parts: rocprofiler's interface (fake_rocprofiler.cpp), and the device's work (fake_device.cpp).
#pragma once
#include "completions.hpp"
#include "fake_rocprofiler.hpp"

#include <iterator>
#include <map>

namespace fake {

enum Status {
  OK = 0,
  ERROR = 1,
  NO_CONTEXT = 2,
  NO_BUFFER = 3,
  NO_KIND = 4,
  NO_OPERATION = 5,
  NO_AGENT = 7,
  ALREADY = 15,
  LOCKED = 16,
  NOT_BUILT = 17,
  INVALID = 19,
  FINALIZED = 21,
  OLD_KERNEL = 28,
  NOT_AVAILABLE = 37
};

struct Id {
  uint64_t handle;
};
struct Record {
  Id context;
  uint64_t thread;
  uint64_t internal, external, ancestor;
  int kind, operation, phase;
  void* payload;
};
using Callback = void (*)(Record, uint64_t*, void*);
struct Header {
  uint32_t category, kind;
  void* payload;
};
using BufferCallback = void (*)(Id, Id, Header**, size_t, void*, uint64_t);

constexpr uint64_t kCpu = 0xA0, kGpuAgent = 0xA1;
constexpr int kHsaCore = 1, kHsaExtensions = 2, kHip = 5, kCode = 10, kDispatch = 12, kCopy = 13;
inline const char* const kHipNames[] = {"hipGetDevice",
                                        "hipModuleLaunchKernel",
                                        "hipMemcpy",
                                        "hipDeviceSynchronize",
                                        "hipLaunchHostFunc",
                                        "hipInit",
                                        "hipMemset2D",
                                        "hipStreamQuery",
                                        "hipGetErrorName",
                                        "hipModuleGetFunction",
                                        "hipLaunchKernel",
                                        "hipStreamBeginCapture",
                                        "hipStreamEndCapture",
                                        "hipEventRecord",
                                        "hipStreamWaitEvent",
                                        "hipGraphAddKernelNode",
                                        "hipGraphAddChildGraphNode",
                                        "hipGraphInstantiate",
                                        "hipGraphLaunch",
                                        "hipGraphDestroy",
                                        "hipGraphExecDestroy"};
inline const char* const kHsaCoreNames[] = {"hsa_init",
                                            "hsa_iterate_agents",
                                            "hsa_agent_get_info",
                                            "hsa_queue_load_read_index_relaxed",
                                            "hsa_queue_add_write_index_screlease",
                                            "hsa_memory_allocate",
                                            "hsa_memory_copy",
                                            "hsa_signal_load_relaxed",
                                            "hsa_signal_store_screlease",
                                            "hsa_signal_wait_scacquire"};
inline const char* const kHsaExtensionNames[] = {"hsa_amd_memory_async_copy", "hsa_amd_memory_fill", "hsa_amd_signal_wait_any"};
struct Table {
  int kind;
  const char* const* names;
  int count;
};
inline const Table kTables[] = {{kHsaCore, kHsaCoreNames, static_cast<int>(std::size(kHsaCoreNames))},
                                {kHsaExtensions, kHsaExtensionNames, static_cast<int>(std::size(kHsaExtensionNames))},
                                {kHip, kHipNames, static_cast<int>(std::size(kHipNames))}};
// nullptr: there are no calls of that kind.
inline const Table* table_of(int kind) {
  for (const Table& one : kTables)
    if (one.kind == kind) return &one;
  return nullptr;
}

struct Sampling {
  size_t context = 0, buffer = 0;
  int method = 0;
};
// By agent.
extern std::map<uint64_t, Sampling> samplings;
// With `two` in FAKE_ROCM there is a second GPU.
bool is_gpu(uint64_t agent);
// Never destroyed: the program ends while it waits.
extern Completions& runtime;

// The counting service (fake_counters.cpp), and functions of the rest for it and for the service of samples (fake_sampling.cpp).
int start_counting(Id context);
void count_kernel(uint64_t agent, const char* name);
bool may_configure();
bool is_context(size_t number);
bool is_buffer(size_t number);
void samples_in(size_t context);
bool has_ended();
void counts_in(size_t context);
bool is_active(size_t context);
int violates(const char* text, int status);

// CLOCK_BOOTTIME, as rocprofiler's.
uint64_t now();
// Of a call or of work. `external`: by context.
struct Numbers {
  uint64_t internal = 0, ancestor = 0;
  std::map<size_t, uint64_t> external{};
};
// A word of FAKE_ROCM.
bool is(const char* word);
// Whether a tool listens to that operation.
bool is_heard(int kind, int operation);
// Of work that the calling thread gives the device; `request`: the kind that the tool may be asked with.
Numbers numbers_of_work(Numbers innermost, int request);
// Calls the tool's services of that kind and operation.
void tell(int kind, int operation, int phase, void* payload, const Numbers& numbers, uint64_t* user);
// Puts a record of a sample into the tool's buffer for that GPU, and delivers the buffer if it is full.
void store(uint64_t agent, uint32_t kind, const void* bytes, size_t size);

}  // namespace fake
