// The device counting service of the stand-in for rocprofiler-sdk. A GPU of two dies counts ten counters at once; each `scale` adds the amounts below
// to each instance of its GPU, and counts begin at 0 when their context is started.
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "fake_state.hpp"

namespace {

constexpr int OK = 0, NO_CONTEXT = 2, NO_AGENT = 7, LOCKED = 16, INVALID = 19, NOT_FOUND = 24, NO_RESOURCES = 29, NOT_STARTED = 11, TOO_MANY = 38;
struct Counter {
  const char* name;
  std::vector<double> a_kernel;  // for each instance
};
const std::vector<Counter> kCounters = {
    {"TCC_EA0_RDREQ", {1000, 500}},
    {"TCC_EA0_RDREQ_32B", {100, 0}},
    {"TCC_BUBBLE", {0, 200}},
    {"TCC_EA0_WRREQ", {300, 300}},
    {"TCC_EA0_WRREQ_64B", {200, 100}},
    {"GRBM_COUNT", {9000, 10000}},
    {"SQ_BUSY_CU_CYCLES", {4000, 5000}},
    {"SQ_VALU_MFMA_BUSY_CYCLES", {32000, 16000}},
    {"SQ_WAVE_CYCLES", {20000, 10000}},
    {"TCC_HIT", {700, 70}},
    {"TCC_MISS", {1, 1}},
    {"SQ_UNWANTED", {5}},
};
constexpr size_t kAtOnce = 10;
constexpr uint64_t kFirst = 100;  // the number of the first counter

std::mutex mutex;
std::condition_variable changed;
struct Configuration {
  uint64_t agent;
  std::vector<uint64_t> counters;
};
std::vector<Configuration> configurations;
struct Service {
  uint64_t agent = 0;
  void (*callback)(fake::Id, fake::Id, int (*)(fake::Id, fake::Id), void*) = nullptr;
  void* data = nullptr;
  size_t configuration = 0;
  bool starting = false, counting = false;
  uint64_t kernels = 0;
};
std::map<uint64_t, Service> services;  // by context

int set_configuration(fake::Id context, fake::Id configuration) {
  if (!services.count(context.handle) || !services[context.handle].starting) return fake::violates("set outside of a start", LOCKED);
  if (!configuration.handle || configuration.handle > configurations.size()) return fake::violates("no such configuration", NOT_FOUND);
  Service& service = services[context.handle];
  if (configurations[configuration.handle - 1].agent != service.agent) return fake::violates("another GPU's configuration", INVALID);
  service.configuration = configuration.handle;
  return OK;
}

}  // namespace

namespace fake {

int start_counting(Id context) {
  Service& service = services.at(context.handle);
  service.starting = true;
  service.callback(context, {service.agent}, set_configuration, service.data);
  service.starting = false;
  std::lock_guard<std::mutex> hold(mutex);
  service.kernels = 0;
  service.counting = service.configuration != 0;
  changed.notify_all();
  return service.counting ? OK : NOT_FOUND;
}

void count_kernel(uint64_t agent, const char* name) {
  std::lock_guard<std::mutex> hold(mutex);
  for (auto& [context, service] : services)
    if (service.agent == agent && service.counting && !strcmp(name, "scale")) service.kernels++;
}

void wait_until_counting() {
  std::unique_lock<std::mutex> hold(mutex);
  changed.wait(hold, [] {
    bool counting = !services.empty();
    for (auto& [context, service] : services) counting &= service.counting;
    return counting;
  });
}

}  // namespace fake

#define SDK extern "C" __attribute__((visibility("default"))) int

SDK rocprofiler_iterate_agent_supported_counters(fake::Id agent, int (*callback)(fake::Id, const uint64_t*, size_t, void*), void* data) {
  if (!fake::is_gpu(agent.handle)) return fake::violates("counters of no GPU", NO_AGENT);
  std::vector<uint64_t> ids;
  for (size_t at = 0; at < kCounters.size(); at++) ids.push_back(kFirst + at);
  return callback(agent, ids.data(), ids.size(), data);
}

struct InfoRecord {
  uint64_t id;
  const char *name, *description, *block, *expression;
  uint8_t flags;
};
SDK rocprofiler_query_counter_info(uint64_t counter, int version, InfoRecord* info) {
  if (version != 1 || counter < kFirst || counter >= kFirst + kCounters.size()) return fake::violates("no such counter", NOT_FOUND);
  *info = {counter, kCounters[counter - kFirst].name, "", "", "", 0};
  return OK;
}

SDK rocprofiler_query_record_counter_id(uint64_t instance, uint64_t* counter) {
  *counter = instance >> 16;
  return OK;
}

SDK rocprofiler_create_counter_config(fake::Id agent, const uint64_t* counters, size_t count, fake::Id* configuration) {
  if (!fake::is_gpu(agent.handle) || !count) return fake::violates("a configuration of nothing", INVALID);
  if (count > kAtOnce) return TOO_MANY;
  configurations.push_back({agent.handle, std::vector<uint64_t>(counters, counters + count)});
  configuration->handle = configurations.size();
  return OK;
}

SDK rocprofiler_configure_device_counting_service(fake::Id context, fake::Id buffer, fake::Id agent,
                                                  void (*callback)(fake::Id, fake::Id, int (*)(fake::Id, fake::Id), void*), void* data) {
  if (!fake::may_configure()) return fake::violates("configured after initialization", LOCKED);
  if (services.count(context.handle) || buffer.handle || !fake::is_gpu(agent.handle)) return fake::violates("a second service of a context", INVALID);
  Service& service = services[context.handle];
  service.agent = agent.handle;
  service.callback = callback;
  service.data = data;
  fake::counts_in(context.handle);
  return OK;
}

struct CounterRecord {
  uint64_t instance;
  double value;
  uint64_t dispatch, user;
  fake::Id agent;
};
SDK rocprofiler_sample_device_counting_service(fake::Id context, uint64_t user, int flags, CounterRecord* records, size_t* count) {
  if (fake::has_ended()) return fake::violates("counters read after the end", 21);
  if (!services.count(context.handle)) return fake::violates("no such context", NO_CONTEXT);
  if (!fake::is_active(context.handle)) return NOT_STARTED;
  if (flags || !records || !count) return fake::violates("counters for nobody", INVALID);
  std::lock_guard<std::mutex> hold(mutex);
  const Service& service = services[context.handle];
  size_t filled = 0;
  for (uint64_t id : configurations[service.configuration - 1].counters) {
    uint64_t instance = 0;
    for (double amount : kCounters[id - kFirst].a_kernel) {
      if (filled == *count) return NO_RESOURCES;
      records[filled++] = {id << 16 | instance++, amount * static_cast<double>(service.kernels), 0, user, {service.agent}};
    }
  }
  *count = filled;
  return OK;
}
