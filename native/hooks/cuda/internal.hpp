// The parts of the CUDA hook, for cuda.cpp.
#pragma once
#include "hooks/cuda/cupti_api.hpp"

#include <string_view>

namespace aiflame::cuda {

// callbacks.cpp: enables CUPTI's callbacks, and handles each.
bool enable_callbacks(CUpti_SubscriberHandle subscriber) noexcept;
void CUPTIAPI on_callback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
// The callback if calls are traced, too.
void CUPTIAPI on_traced_callback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
// The id of a call in our tables, from its CUPTI id. CUPTI may count from the beginning after another tool has ended it, so ids include the
// subscription's number.
uint64_t correlation(uint32_t id) noexcept;
// True if the calling thread is inside a call that CUPTI reported to us: CUPTI's and the driver's locks may be held.
bool in_callback() noexcept;
// Row of `kernel_variants` of the kernel that the calling thread's driver call launches, 0: none.
uint32_t variant_being_launched() noexcept;

// waits.cpp: calls in which the program waits for a device.
inline constexpr uint32_t kMostCalls = 4096;  // of an API: their ids are below this
struct Wait {
  uint32_t kind;    // schema::SyncKind, 0: it does not wait
  uint32_t stream;  // 0: all, or unknown
};
// True if a call waits, judged by its name; wait_of() then finds it by its id.
bool learn_wait(CUpti_CallbackDomain domain, CUpti_CallbackId id, std::string_view name) noexcept;
bool waits(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept;
Wait wait_of(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& data) noexcept;
void write_wait(const Wait& wait, uint32_t id, uint64_t begin_ns, uint64_t end_ns) noexcept;

// activity.cpp
bool enable_activity() noexcept;
void disable_activity() noexcept;
void flush_activity(bool all) noexcept;
// Call it when all records are flushed: their times are converted when they are delivered.
void give_clock_back() noexcept;
// The number of a stream in our tables: the default streams of all contexts have one number.
uint32_t stream_number(uint32_t context, uint32_t stream) noexcept;
// True if CUPTI holds buffers that we lent it.
bool has_lent_buffers() noexcept;
// CUPTI has filled a buffer: ours, or another tool's.
void CUPTIAPI on_buffer_full(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t used);

// graphs.cpp
// A call launches a graph.
void on_graph_launch(uint64_t correlation) noexcept;
// The node of a record. CUPTI knows none of a graph that was instantiated before it came: then a number that no node has, where the graph's launch is
// known.
uint64_t node_or_unknown(uint64_t node, uint64_t correlation) noexcept;
void on_graph_node(CUpti_CallbackId id, const CUpti_GraphData& graph) noexcept;

// modules.cpp
void on_module_loaded(const CUpti_ModuleResourceData& module) noexcept;

// cuda.cpp. For the worker: a recording that has reached its size limit or filled the disk ends without switching off CUPTI, which would keep slowing
// the program.
void stop_if_recording_ended() noexcept;

// Calls that CUPTI makes would break the program's captures of streams, as calls of any thread do unless it sets the relaxed mode: for threads of our
// own. `mode` becomes the thread's mode before. False: the driver does not accept it yet.
inline constexpr int kRelaxedCaptures = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
bool exchange_capture_mode(int& mode) noexcept;

// worker.cpp: the thread that fetches samples and flushes records.
void start_worker() noexcept;
// Waits for its end, unless the worker itself calls this.
void stop_worker() noexcept;
// Makes the worker, if there is one, write all records that CUPTI holds; the caller waits for it and takes no lock. False: it took longer than
// `patience`, and no longer is the worker.
bool flush_by_worker(uint64_t patience) noexcept;
void forget_worker() noexcept;

}  // namespace aiflame::cuda
