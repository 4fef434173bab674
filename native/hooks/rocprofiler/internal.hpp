// Shared by the files of this folder.
#pragma once
#include "aiflame_schema.hpp"
#include "hooks/rocprofiler/api.hpp"
#include "sampler/threads.hpp"
#include "unwind/frames.hpp"

#include <cstdint>

namespace aiflame::rocprofiler {

inline constexpr auto kApi = schema::GpuApi::HIP;

// rocprofiler.cpp
bool collecting() noexcept;
// `AMD Instinct MI300X [0]`, as a reference to a text.
uint32_t device_text(Handle agent) noexcept;
// rocprofiler's clock is CLOCK_BOOTTIME: it goes on while the machine sleeps.
uint64_t to_monotonic(uint64_t time) noexcept;

// launches.cpp
// Operations of HIP that we can listen to: rocprofiler's numbers.
inline constexpr int32_t kMostOperations = 2048;
// Chooses the calls of HIP that put work on a device or wait for one, and those that are traced. False: none can be listened to.
bool listen_to_calls(Handle context) noexcept;
// For work that a program gives a device without a call of HIP that we listen to, as OpenMP's runtime does by HSA: in the thread that gives it.
void add_launch_without_call(uint64_t correlation, const Registers& from) noexcept;
// Gives work the number of the call of HIP that it belongs to (launched_by()). False: rocprofiler cannot.
bool number_work(Handle context) noexcept;
// Leaves out the frames between the program's call of HIP and us, which are rocprofiler's.
Registers skip_rocprofiler(Thread& thread, const Registers& from) noexcept;

// hsa.cpp
// Traces the calls of HSA. False: none can be listened to.
bool listen_to_hsa(Handle context) noexcept;

// calls.cpp
// True: this function's calls are traced.
bool trace_operation(int32_t operation, const char* name) noexcept;
void begin_traced(const Registers& from) noexcept;
void end_traced(int32_t operation, const ApiCall* call) noexcept;

// work.cpp
// `node`: as in `kernels`.
void on_dispatch(uint64_t correlation, uint64_t node, const Dispatch& dispatch) noexcept;
void on_copy(uint64_t correlation, int32_t operation, const Copy& copy) noexcept;

// samples.cpp
// Chooses how each GPU is sampled. False: none can be.
bool configure_sampling(Handle context) noexcept;
void add_agent(const Agent& agent) noexcept;
void flush_samples() noexcept;
void forget_reasons() noexcept;

}  // namespace aiflame::rocprofiler
