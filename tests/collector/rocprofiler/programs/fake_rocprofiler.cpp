#include "fake_rocprofiler.hpp"

#include "fake_state.hpp"

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

using namespace fake;

namespace {

struct Service {
  std::vector<int> operations;  // none: all
  Callback callback;
  void* data;
  bool wants(int operation) const {
    for (int one : operations)
      if (one == operation) return true;
    return operations.empty();
  }
};
using Request = int (*)(uint64_t thread, Id context, int kind, int operation, uint64_t internal, uint64_t* external, void* data);
constexpr int kOfDispatch = 11;
struct Context {
  std::map<int, Service> services;
  Service requests{{0}, nullptr, nullptr};
  bool active = false, samples = false;
  bool counts = false;
};
struct Stored {
  uint32_t kind;
  std::vector<char> bytes;
};
struct Buffer {
  size_t context, size, watermark;
  BufferCallback callback;
  void* data;
  std::vector<Stored> records;
  size_t filled = 0;
};

std::mutex lock;
std::vector<Context> contexts;
std::vector<Buffer> buffers;
int broken = 0;
bool initialized = false, finalized = false;

int violation(const char* text, int status) {
  fprintf(stderr, "fake rocprofiler: %s\n", text);
  broken++;
  return status;
}

void deliver(size_t number) {
  std::vector<Stored> records;
  Buffer copy;
  {
    std::lock_guard<std::mutex> hold(lock);
    records.swap(buffers[number - 1].records);
    buffers[number - 1].filled = 0;
    copy = buffers[number - 1];
  }
  if (records.empty()) return;
  std::vector<Header> headers;
  std::vector<Header*> places;
  for (Stored& one : records) headers.push_back({2, one.kind, one.bytes.data()});
  for (Header& one : headers) places.push_back(&one);
  copy.callback({copy.context}, {number}, places.data(), places.size(), copy.data, 0);
}

}  // namespace

namespace fake {

std::map<uint64_t, Sampling> samplings;
Completions& runtime = *new Completions;

uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

bool is(const char* word) {
  const char* said = getenv("FAKE_ROCM");
  std::string all = std::string(",") + (said ? said : "") + ",";
  return all.find("," + std::string(word) + ",") != std::string::npos;
}

bool is_gpu(uint64_t agent) { return agent == kGpuAgent || (agent == kGpuAgent + 1 && is("two")); }

bool is_heard(int kind, int operation) {
  if (is("hsa_heard") && kind != kHip) return true;
  std::lock_guard<std::mutex> hold(lock);
  for (const Context& context : contexts) {
    auto service = context.services.find(kind);
    if (context.active && service != context.services.end() && service->second.wants(operation)) return true;
  }
  return false;
}

Numbers numbers_of_work(Numbers numbers, int request) {
  std::vector<std::pair<Service, size_t>> asked;
  {
    std::lock_guard<std::mutex> hold(lock);
    for (size_t at = 0; at < contexts.size(); at++) {
      const Context& context = contexts[at];
      bool gets_it = context.samples ? request == kOfDispatch : context.services.count(request == kOfDispatch ? kDispatch : kCopy) != 0;
      if (context.active && gets_it && context.requests.wants(request)) asked.push_back({context.requests, at + 1});
    }
  }
  for (auto& [service, context] : asked) {
    auto ask = reinterpret_cast<Request>(service.callback);
    uint64_t given = 0;
    if (ask(static_cast<uint64_t>(gettid()), {context}, request, request == kOfDispatch ? 1 : 2, numbers.internal, &given, service.data) == 0)
      numbers.external[context] = given;
  }
  return numbers;
}

// Callbacks are made without our lock: the tool may call us.
void tell(int kind, int operation, int phase, void* payload, const Numbers& numbers, uint64_t* user) {
  std::vector<std::pair<Service, size_t>> wanted;
  {
    std::lock_guard<std::mutex> hold(lock);
    for (size_t at = 0; at < contexts.size(); at++) {
      auto service = contexts[at].services.find(kind);
      if (contexts[at].active && service != contexts[at].services.end() && service->second.wants(operation))
        wanted.push_back({service->second, at + 1});
    }
  }
  for (auto& [service, context] : wanted) {
    auto given = numbers.external.find(context);
    Record record{{context},        static_cast<uint64_t>(gettid()),
                  numbers.internal, given == numbers.external.end() ? 0 : given->second,
                  numbers.ancestor, kind,
                  operation,        phase,
                  payload};
    service.callback(record, user, service.data);
  }
}

void store(uint64_t agent, uint32_t kind, const void* bytes, size_t size) {
  size_t number;
  bool full;
  {
    std::lock_guard<std::mutex> hold(lock);
    auto sampling = samplings.find(agent);
    if (sampling == samplings.end() || !contexts[sampling->second.context - 1].active) return;
    number = sampling->second.buffer;
    Buffer& buffer = buffers[number - 1];
    buffer.records.push_back({kind, std::vector<char>(static_cast<const char*>(bytes), static_cast<const char*>(bytes) + size)});
    buffer.filled += size;
    full = buffer.filled >= buffer.watermark;
  }
  if (full) deliver(number);
}

int violations() { return broken; }

}  // namespace fake

namespace {

struct Configuration {
  size_t size;
  int (*initialize)(void*, void*);
  void (*finalize)(void*);
  void* data;
};
struct Client {
  size_t size;
  const char* name;
  uint32_t handle;
};
Configuration tool{};

// Asks for the tool, as the runtime did before it loaded us.
void register_tool() {
  using Configure = Configuration* (*)(uint32_t, const char*, uint32_t, Client*);
  auto configure = reinterpret_cast<Configure>(dlsym(RTLD_DEFAULT, "rocprofiler_configure"));
  Client client{sizeof(Client), nullptr, 1};
  Configuration* result = configure ? configure(is("old") ? 600 : 10000, "1.0.0", 1, &client) : nullptr;
  if (!result) return;
  tool = *result;
  if (tool.size != sizeof tool || !tool.initialize) violation("a configuration without its size or functions", 0);
  if (!client.name) violation("the client has no name", 0);
  int status = tool.initialize(nullptr, tool.data);
  std::lock_guard<std::mutex> hold(lock);
  initialized = true;
  if (status != 0)
    for (Context& context : contexts) context.active = false;
  // As rocprofiler does: registered after the tool was loaded, so it runs before the tool's own handlers.
  atexit([] {
    runtime.wait();
    runtime.end();
    {
      std::lock_guard<std::mutex> hold_(lock);
      for (Context& context : contexts) context.active = false;
    }
    if (tool.finalize) tool.finalize(tool.data);
    std::lock_guard<std::mutex> hold_(lock);
    finalized = true;
    if (broken) _exit(99);
  });
}

}  // namespace

#define SDK extern "C" __attribute__((visibility("default"))) int
#define CONFIGURES \
  if (initialized) return violation("configured after initialization", LOCKED)

SDK rocprofiler_set_api_table() {
  static bool once = false;
  if (!once) register_tool();
  once = true;
  return OK;
}

// As in the public header, to the last field.
struct AgentRecord {
  uint64_t size;
  Id id;
  int type;
  uint32_t counts[21];
  uint16_t vendor, device;
  uint32_t location, domain;
  char between[132];
  const char *name, *vendor_name, *product_name, *model_name;
  uint32_t node;
  int logical, of_type, visibility;
  uint8_t uuid[16];
};
static_assert(sizeof(AgentRecord) == 320 || sizeof(AgentRecord) == 312);

SDK rocprofiler_query_available_agents(int version, int (*callback)(int, const void**, size_t, void*), size_t size, void* data) {
  if (version != 1 || size > sizeof(AgentRecord)) return violation("agents of another version", INVALID);
  AgentRecord cpu{}, gpu{};
  cpu.size = gpu.size = sizeof cpu;
  cpu.id = {kCpu};
  cpu.type = 1;
  cpu.name = cpu.product_name = "A CPU";
  gpu.id = {kGpuAgent};
  gpu.type = 2;
  gpu.counts[1] = 16;
  gpu.counts[13] = 4;
  gpu.counts[20] = 90402;
  gpu.location = 0xC1 << 8 | 3 << 3;
  gpu.name = "gfx942";
  gpu.vendor_name = "AMD";
  gpu.product_name = "AMD Instinct MI300X";
  gpu.node = gpu.logical = 1;
  AgentRecord second = gpu;
  second.id = {kGpuAgent + 1};
  second.location = 0xC2 << 8 | 3 << 3;
  second.node = 2;
  second.logical = 2;
  second.of_type = 1;
  const void* agents[] = {&cpu, &gpu, &second};
  return callback(1, agents, is_gpu(second.id.handle) ? 3 : 2, data);
}

SDK rocprofiler_create_context(Id* context) {
  CONFIGURES;
  if (context->handle) return violation("a context that is one already", 13);
  contexts.emplace_back();
  context->handle = contexts.size();
  return OK;
}

SDK rocprofiler_start_context(Id context) {
  std::lock_guard<std::mutex> hold(lock);
  if (finalized) return violation("started after the end", FINALIZED);
  if (!context.handle || context.handle > contexts.size()) return violation("no such context", NO_CONTEXT);
  Context& one = contexts[context.handle - 1];
  if (one.services.empty() && !one.samples && !one.counts) return violation("a context without services", 10);
  one.active = true;
  if (one.counts && start_counting(context) != OK) return violation("no configuration is set when counting starts", ERROR);
  return OK;
}

// For the other files.
namespace fake {
bool may_configure() { return !initialized; }
bool is_context(size_t number) { return number && number <= contexts.size(); }
bool is_buffer(size_t number) { return number && number <= buffers.size(); }
void samples_in(size_t context) { contexts[context - 1].samples = true; }
bool has_ended() { return finalized; }
void counts_in(size_t context) { contexts[context - 1].counts = true; }
bool is_active(size_t context) {
  std::lock_guard<std::mutex> hold(lock);
  return contexts[context - 1].active;
}
int violates(const char* text, int status) { return violation(text, status); }
}  // namespace fake

SDK rocprofiler_stop_context(Id context) {
  std::lock_guard<std::mutex> hold(lock);
  if (!context.handle || context.handle > contexts.size()) return violation("no such context", NO_CONTEXT);
  contexts[context.handle - 1].active = false;
  return OK;
}

SDK rocprofiler_create_buffer(Id context, size_t size, size_t watermark, int policy, BufferCallback callback, void* data, Id* buffer) {
  CONFIGURES;
  if (buffer->handle) return violation("a buffer that is one already", ALREADY);
  if (!context.handle || context.handle > contexts.size()) return violation("no such context", NO_CONTEXT);
  if (!callback || watermark > size || policy < 1 || policy > 2) return violation("a buffer without a callback or with a wrong size", INVALID);
  buffers.push_back({context.handle, size, watermark, callback, data, {}, 0});
  buffer->handle = buffers.size();
  return OK;
}

SDK rocprofiler_flush_buffer(Id buffer) {
  if (!buffer.handle || buffer.handle > buffers.size()) return violation("no such buffer", NO_BUFFER);
  if (finalized) return violation("flushed after the end", FINALIZED);
  deliver(buffer.handle);
  return OK;
}

SDK rocprofiler_configure_callback_tracing_service(Id context, int kind, const int* operations, size_t count, Callback callback, void* data) {
  CONFIGURES;
  if (!context.handle || context.handle > contexts.size()) return violation("no such context", NO_CONTEXT);
  const Table* table = table_of(kind);
  int most = table ? table->count - 1 : kind == kCode ? 3 : kind == kDispatch ? 2 : kind == kCopy ? 4 : 0;
  if (!most) return violation("no such kind", NO_KIND);
  for (size_t at = 0; at < count; at++)
    if (operations[at] < 0 || operations[at] > most) return violation("no such operation", NO_OPERATION);
  auto& services = contexts[context.handle - 1].services;
  if (services.count(kind)) return violation("a second service of a kind", ALREADY);
  services[kind] = {std::vector<int>(operations, operations + count), callback, data};
  return OK;
}

SDK rocprofiler_iterate_callback_tracing_kind_operations(int kind, int (*callback)(int, int, void*), void* data) {
  const Table* table = table_of(kind);
  if (!table) return NO_KIND;
  for (int operation = 0; operation < table->count; operation++)
    if (callback(kind, operation, data) != 0) break;
  return OK;
}

SDK rocprofiler_query_callback_tracing_kind_operation_name(int kind, int operation, const char** name, uint64_t* length) {
  const Table* table = table_of(kind);
  if (!table) return NO_KIND;
  if (operation < 0 || operation >= table->count) return NO_OPERATION;
  if (name) *name = table->names[operation];
  if (length) *length = strlen(table->names[operation]);
  return OK;
}

// Once for a context. Unlike the other services it may be configured at any time; we hold tools to its documentation.
SDK rocprofiler_configure_external_correlation_id_request_service(Id context, const int* kinds, size_t count, Request callback, void* data) {
  CONFIGURES;
  if (is("no_request")) return ERROR;
  if (!context.handle || context.handle > contexts.size()) return violation("no such context", NO_CONTEXT);
  if (!callback || (kinds && !count)) return violation("a request without a callback or without kinds", INVALID);
  for (size_t at = 0; at < count; at++)
    if (kinds[at] < 1 || kinds[at] > 19) return violation("no such kind of request", NO_KIND);
  Service& requests = contexts[context.handle - 1].requests;
  if (requests.callback) return violation("a second service that is asked for numbers", ALREADY);
  requests = {std::vector<int>(kinds, kinds + count), reinterpret_cast<Callback>(callback), data};
  return OK;
}

SDK rocprofiler_get_timestamp(uint64_t* time) {
  *time = now();
  return OK;
}
