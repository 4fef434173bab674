// AMD's rocprofiler-sdk: the parts of its interface that we use, of version 1.0 (ROCm 7.0) and later. It is found at run time and never linked.
//
// Structures begin with their size and grow at their end: only the fields below are read, and those of a smaller one are not there.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::rocprofiler {

inline constexpr uint32_t kOldest = 10000;  // 10000 * major + 100 * minor + patch. Before it, callbacks had another layout

enum Status : int32_t {
  kSuccess = 0,
  kAlreadyConfigured = 15,
  kLocked = 16,
  kNotImplemented = 17,  // PC sampling without ROCPROFILER_PC_SAMPLING_BETA_ENABLED
  kIncompatibleKernel = 28,
  kNotAvailable = 37,
};

struct Handle {
  uint64_t handle;
};

struct ClientId {
  size_t size;
  const char* name;
  const uint32_t handle;
};
struct ToolConfiguration {
  size_t size;
  int (*initialize)(void (*finalize)(ClientId), void* data);
  void (*finalize)(void* data);
  void* data;
};

// `internal`: the number of the innermost call in the thread that any tool in the process listens to, whether of HIP, HSA or another interface;
// `ancestor`: of the one around it. `external`: the number that we gave when we were asked, 0: none.
struct Correlation {
  uint64_t internal, external, ancestor;
};
enum Kind : int32_t {
  kHsaCore = 1,
  kHsaExtensions = 2,
  kHsaImages = 3,
  kHsaFinalizer = 4,
  kHipRuntimeApi = 5,
  kCodeObject = 10,
  kKernelDispatch = 12,
  kMemoryCopy = 13
};
enum Request : int32_t { kOfMemoryCopy = 10, kOfKernelDispatch = 11 };
enum Phase : int32_t { kNone = 0, kEnter = 1, kExit = 2 };
enum CodeObjectOperation : int32_t { kLoad = 1, kKernelSymbol = 2, kHostKernelSymbol = 3 };
enum DispatchOperation : int32_t { kEnqueue = 1, kComplete = 2 };
enum CopyOperation : int32_t { kHostToHost = 1, kHostToDevice = 2, kDeviceToHost = 3, kDeviceToDevice = 4 };

struct CallbackRecord {
  Handle context;
  uint64_t thread;
  Correlation correlation;
  int32_t kind, operation, phase;
  void* payload;
};
static_assert(sizeof(CallbackRecord) == 64);
using Callback = void (*)(CallbackRecord record, uint64_t* user, void* data);

// The payload of a call. `arguments`: a union of structures with the function's arguments in their order, which is as large as the largest that this
// release knows; behind it the result, a union: of HIP as large as hipChannelFormatDesc, of HSA a number.
struct ApiCall {
  uint64_t size;
  char arguments[];
};
inline constexpr size_t kHipResultBytes = 24, kHsaResultBytes = 8;
inline size_t argument_bytes(const ApiCall& call, size_t result_bytes = kHipResultBytes) noexcept {
  return call.size > sizeof call + result_bytes ? call.size - sizeof call - result_bytes : 0;
}

struct CodeObject {
  uint64_t size, id;
  Handle agent;
  uint64_t hsa_agent;
  const char* uri;
  uint64_t load_base, load_size;
  int64_t load_delta;
  int32_t storage;
  union {
    int32_t file;
    struct {
      uint64_t memory, memory_bytes;
    };
  };
};
enum Storage : int32_t { kInFile = 1, kInMemory = 2 };
struct KernelSymbol {
  uint64_t size, kernel, code_object;
  const char* name;
  uint64_t object;
  uint32_t argument_bytes, argument_alignment, group_bytes, private_bytes, scalar_registers, vector_registers, accumulation_registers;
};
struct HostKernelSymbol {
  uint64_t size, id, kernel, code_object, host_function, modules;
  const char* device_function;
};
struct Extent {
  uint32_t x, y, z;
};
struct Dispatch {
  uint64_t size, start, end;
  uint64_t info_bytes;
  Handle agent, queue;
  uint64_t kernel, id;
  uint32_t private_bytes, group_bytes;
  Extent workgroup, grid;  // `grid`: in work items
};
struct Copy {
  uint64_t size, start, end;
  Handle to, from;
  uint64_t bytes;
};
static_assert(offsetof(CodeObject, memory_bytes) == 80 && offsetof(KernelSymbol, vector_registers) == 60 && offsetof(Dispatch, grid) == 84);

struct Agent {
  uint64_t size;
  Handle id;
  int32_t type;
  uint32_t before_simds, simds, before_units[11], units, before_target[6],
      target;  // units: compute units. target: 10000 * major + 100 * minor + step, of gfx90a 90010
  uint16_t vendor, device;
  uint32_t location, domain;
  uint8_t before_name[132];
  const char *name, *vendor_name, *product_name, *model_name;
  uint32_t node;
  int32_t number, number_of_its_type;
};
inline constexpr int32_t kGpu = 2;
static_assert(offsetof(Agent, simds) == 24 && offsetof(Agent, units) == 72 && offsetof(Agent, target) == 100 && offsetof(Agent, name) == 248 &&
              offsetof(Agent, number_of_its_type) == 288);

struct SamplingChoice {
  uint64_t size;
  int32_t method, unit;
  size_t least, most;
  uint64_t flags;
};
enum Method : int32_t { kStochastic = 1, kHostTrap = 2 };
enum Unit : int32_t { kCycles = 2 };
inline constexpr uint64_t kPowerOfTwo = 1;

struct Pc {
  uint64_t code_object, offset;  // 0: of no code object. Offset: from its load_base
};
struct AsyncCorrelation {
  uint64_t internal, external;
};
// The call that work belongs to.
template <class Numbers>
uint64_t launched_by(const Numbers& numbers) noexcept {
  return numbers.external ? numbers.external : numbers.internal;
}
struct HostTrapSample {
  uint64_t size, hardware;
  Pc pc;
  uint64_t lanes, time, dispatch;
  AsyncCorrelation correlation;
};
struct StochasticSample {
  uint64_t size;
  uint8_t flags, wave_in_group, issued_and_type, unused[5];
  uint64_t hardware;
  Pc pc;
  uint64_t lanes;
  Extent workgroup;
  uint32_t waves;
  uint64_t time, dispatch;
  AsyncCorrelation correlation;
  uint32_t snapshot;  // the low four bits: why it was not issued
};
static_assert(offsetof(HostTrapSample, correlation) == 56 && offsetof(StochasticSample, snapshot) == 96);

struct RecordHeader {
  uint32_t category, kind;
  void* payload;
};
inline constexpr uint32_t kPcSampling = 2;
enum SampleKind : uint32_t { kInvalidSample = 1, kHostTrapSample = 2, kStochasticSample = 3 };
using BufferCallback = void (*)(Handle context, Handle buffer, RecordHeader** headers, size_t count, void* data, uint64_t dropped);
enum BufferPolicy : int32_t { kDiscard = 1, kLossless = 2 };

struct CounterInfo {
  uint64_t id;
  const char *name, *description, *block, *expression;
  uint8_t flags;
};
struct CounterRecord {
  uint64_t instance;
  double value;
  uint64_t dispatch, user;
  Handle agent;
};
using SetConfiguration = int32_t (*)(Handle context, Handle configuration);

// Functions that an SDK may lack.
struct Counting {
  int32_t (*iterate_agent_supported_counters)(Handle agent, int32_t (*callback)(Handle, const uint64_t*, size_t, void*), void* data);
  int32_t (*query_counter_info)(uint64_t counter, int32_t version, void* info);
  int32_t (*query_record_counter_id)(uint64_t instance, uint64_t* counter);
  int32_t (*create_counter_config)(Handle agent, const uint64_t* counters, size_t count, Handle* configuration);
  int32_t (*configure_device_counting_service)(Handle context, Handle buffer, Handle agent, void (*callback)(Handle, Handle, SetConfiguration, void*),
                                               void* data);
  int32_t (*sample_device_counting_service)(Handle context, uint64_t user, int32_t flags, CounterRecord* records, size_t* count);
};

// Asked in the thread that gives a device work. 0: `*external` is set.
using NumberRequest = int (*)(uint64_t thread, Handle context, int32_t kind, int32_t operation, uint64_t internal, uint64_t* external, void* data);

// Its functions, which api.cpp looks up.
struct Sdk {
  int32_t (*query_available_agents)(int32_t version, int32_t (*callback)(int32_t, const void**, size_t, void*), size_t agent_bytes, void* data);
  int32_t (*create_context)(Handle* context);
  int32_t (*start_context)(Handle context);
  int32_t (*stop_context)(Handle context);
  int32_t (*create_buffer)(Handle context, size_t bytes, size_t watermark, int32_t policy, BufferCallback callback, void* data, Handle* buffer);
  int32_t (*flush_buffer)(Handle buffer);
  int32_t (*configure_callback_tracing_service)(Handle context, int32_t kind, const int32_t* operations, size_t count, Callback callback, void* data);
  int32_t (*iterate_callback_tracing_kind_operations)(int32_t kind, int (*callback)(int32_t, int32_t, void*), void* data);
  int32_t (*query_callback_tracing_kind_operation_name)(int32_t kind, int32_t operation, const char** name, uint64_t* length);
  int32_t (*query_pc_sampling_agent_configurations)(Handle agent, int32_t (*callback)(const SamplingChoice*, size_t, void*), void* data);
  int32_t (*configure_pc_sampling_service)(Handle context, Handle agent, int32_t method, int32_t unit, uint64_t interval, Handle buffer, int flags);
  int32_t (*get_timestamp)(uint64_t* time);
  // nullptr: it has none.
  int32_t (*configure_external_correlation_id_request_service)(Handle context, const int32_t* kinds, size_t count, NumberRequest callback,
                                                               void* data);
};

// Finds the functions in the library that contains `address`. False if one is missing.
bool find(const void* address) noexcept;
const Sdk& sdk() noexcept;
// nullptr: it has not all of them.
const Counting* counting() noexcept;
// The addresses of that library.
bool is_inside(uint64_t pc) noexcept;

}  // namespace aiflame::rocprofiler
