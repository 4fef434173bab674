// Shared by the stand-in's two parts: rocprofiler's interface (fake_rocprofiler.cpp), and the device's work (fake_device.cpp).
#pragma once
#include "completions.hpp"
#include "fake_rocprofiler.hpp"

#include <iterator>

namespace fake {

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
constexpr int kHip = 5, kCode = 10, kDispatch = 12, kCopy = 13;
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
constexpr int kHipCount = static_cast<int>(std::size(kHipNames));

struct Sampling {
  size_t context = 0, buffer = 0;
  int method = 0;
};
extern Sampling sampling;
// Never destroyed: the program ends while it waits.
extern Completions& runtime;

// The counting service (fake_counters.cpp), and functions of the rest for it.
int start_counting(Id context);
void count_kernel(const char* name);
bool may_configure();
bool has_ended();
void counts_in(size_t context);
bool is_active(size_t context);
int violates(const char* text, int status);

// CLOCK_BOOTTIME, as rocprofiler's.
uint64_t now();
// Calls the tool's services of that kind and operation.
void tell(int kind, int operation, int phase, void* payload, uint64_t number, uint64_t outer, uint64_t* user);
// Puts a record of a sample into the tool's buffer, and delivers the buffer if it is full.
void store(uint32_t kind, const void* bytes, size_t size);

}  // namespace fake
