// The parts of the CUDA hook, as cuda.cpp puts them together.
#pragma once
#include "hooks/cuda/cupti_api.hpp"

#include <string_view>

namespace aiflame::cuda {

// callbacks.cpp: switches on CUPTI's callbacks, and handles each.
bool enable_callbacks(CUpti_SubscriberHandle subscriber) noexcept;
void CUPTIAPI on_callback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
// The callback to use where calls are traced, too.
void CUPTIAPI on_traced_callback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
// The id for the tables of a call with this CUPTI id. CUPTI may count from the beginning after another tool has ended it, so ids include the
// subscription's number.
uint64_t correlation(uint32_t id) noexcept;
// The calling thread is inside a call that CUPTI reported to us: CUPTI's and the driver's locks may be held.
bool in_callback() noexcept;
// Row of `kernel_variants` of the kernel that the calling thread's driver call launches, 0: none.
uint32_t variant_being_launched() noexcept;

// waits.cpp: calls in which the program waits for a device.
inline constexpr uint32_t kMostCalls = 4096;  // of an API: their ids are below
struct Wait {
  uint32_t kind;    // schema::SyncKind, 0: it does not wait
  uint32_t stream;  // 0: all, or unknown
};
// Whether a call waits, by its name; wait_of() then finds it by its id.
bool learn_wait(CUpti_CallbackDomain domain, CUpti_CallbackId id, std::string_view name) noexcept;
bool waits(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept;
Wait wait_of(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& data) noexcept;
void write_wait(const Wait& wait, uint32_t id, uint64_t begin_ns, uint64_t end_ns) noexcept;

// activity.cpp
bool enable_activity() noexcept;
void disable_activity() noexcept;
void flush_activity(bool all) noexcept;
// Once all is flushed: times of records are converted when they are delivered.
void give_clock_back() noexcept;
// The number of a stream in our tables: the default streams of all contexts have the same.
uint32_t stream_number(uint32_t context, uint32_t stream) noexcept;
// CUPTI holds buffers that we lent it.
bool has_lent_buffers() noexcept;
// CUPTI has filled a buffer: ours, or another tool's.
void CUPTIAPI on_buffer_full(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t used);

// graphs.cpp
void on_graph_node(CUpti_CallbackId id, const CUpti_GraphData& graph) noexcept;

// modules.cpp
void on_module_loaded(const CUpti_ModuleResourceData& module) noexcept;
void forget_cubins() noexcept;

// cuda.cpp. The worker calls this: a recording that has reached its size limit or filled the disk ends without switching off CUPTI, which would
// go on slowing the program.
void stop_if_recording_ended() noexcept;

// worker.cpp: the thread that drains and flushes.
void start_worker() noexcept;
// Waits for its end, unless it is the worker that calls this.
void stop_worker() noexcept;
// The worker, if there is one, writes all records that CUPTI holds; the caller waits for it and takes no lock. False: it takes longer, and
// no longer is the worker.
bool flush_by_worker(uint64_t patience) noexcept;
void forget_worker() noexcept;

}  // namespace aiflame::cuda
