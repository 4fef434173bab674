#include "fake_state.hpp"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fake {

namespace {

// As in the public header, with a part at the end that a later release has added.
struct HostTrap {
  uint64_t size, hardware, code_object, offset, lanes, time, dispatch, internal, external;
  uint32_t workgroup[3], wave;
  uint64_t added[2];
};
struct Stochastic {
  uint64_t size;
  uint8_t flags, wave, issued_type, pad[5];
  uint64_t hardware, code_object, offset, lanes;
  uint32_t workgroup[3], waves;
  uint64_t time, dispatch, internal, external;
  uint32_t snapshot, counters;
  uint64_t added[2];
};

void sample(uint64_t agent, uint64_t code_object, uint64_t offset, int reason, uint64_t time, uint64_t dispatch, const Numbers& numbers) {
  auto place = samplings.find(agent);
  if (place == samplings.end()) return;
  const Sampling& sampling = place->second;
  auto given = numbers.external.find(sampling.context);
  uint64_t external = given == numbers.external.end() ? 0 : given->second;
  if (sampling.method == 1) {
    Stochastic record{};
    record.size = sizeof record;
    record.issued_type = static_cast<uint8_t>((reason < 0) | 3 << 1);
    record.code_object = code_object;
    record.offset = offset;
    record.time = time;
    record.dispatch = dispatch;
    record.internal = numbers.internal;
    record.external = external;
    record.snapshot = 0xABCD0u << 4 | static_cast<uint32_t>(reason < 0 ? 0 : reason);
    store(agent, 3, &record, sizeof record);
  } else {
    HostTrap record{};
    record.size = sizeof record;
    record.code_object = code_object;
    record.offset = offset;
    record.time = time;
    record.dispatch = dispatch;
    record.internal = numbers.internal;
    record.external = external;
    store(agent, 2, &record, sizeof record);
  }
}

struct Loaded {
  uint64_t id = 0, base = 0;
  int64_t delta = 0;
  std::map<std::string, uint64_t> kernels;
} loaded;
std::atomic<uint64_t> last_call{0};
uint64_t last_dispatch = 0, last_code_object = 0, last_kernel = 0;
thread_local Numbers current;
thread_local uint64_t current_agent = kGpuAgent;

// As rocprofiler does: work that no call gave has a number of its own.
Numbers numbers_of(int request) {
  Numbers innermost = current;
  if (!innermost.internal) innermost.internal = ++last_call;
  return numbers_of_work(innermost, request);
}

}  // namespace

struct CodeObjectRecord {
  uint64_t size, id;
  Id agent;
  uint64_t hsa_agent;
  const char* uri;
  uint64_t load_base, load_size;
  int64_t load_delta;
  int storage;
  uint64_t memory_base, memory_size, added;
};
struct SymbolRecord {
  uint64_t size, kernel, code_object;
  const char* name;
  uint64_t object;
  uint32_t arguments, alignment, group, scratch, sgprs, vgprs, agprs;
  int64_t entry;
  uint64_t address, added;
};

void load_code_object(const char* bytes, size_t size, const char* const* kernels, size_t count) {
  // The lowest segment is loaded 0x200 bytes into the file's address space, so the base and the delta differ.
  loaded.delta = 0x7F00'0000'1000;
  loaded.base = static_cast<uint64_t>(loaded.delta) + 0x200;
  loaded.id = ++last_code_object;
  CodeObjectRecord record{sizeof(CodeObjectRecord),
                          loaded.id,
                          {kGpuAgent},
                          0,
                          "memory://1#offset=0x0&size=0",
                          loaded.base,
                          size,
                          loaded.delta,
                          2,
                          reinterpret_cast<uint64_t>(bytes),
                          size,
                          0};
  uint64_t user = 0;
  tell(kCode, 1, 1, &record, {}, &user);
  for (size_t at = 0; at < count; at++) {
    std::string name = std::string(kernels[at]) + ".kd";
    loaded.kernels[kernels[at]] = ++last_kernel;
    SymbolRecord symbol{sizeof(SymbolRecord), last_kernel, loaded.id, name.c_str(), 0x1000, 16, 16, 1024, 64, 32, 24, 8, 0, 0, 0};
    tell(kCode, 2, 1, &symbol, {}, &user);
  }
}

struct HostSymbolRecord {
  uint64_t size, id, kernel, code_object, function, modules;
  const char* name;
  uint32_t threads, dimensions[12];
  uint64_t workgroup;
};

void register_host_function(const void* function, const char* name) {
  HostSymbolRecord record{sizeof(HostSymbolRecord), 1, loaded.kernels.at(name), loaded.id, reinterpret_cast<uint64_t>(function), 0, name, 0, {}, 0};
  uint64_t user = 0;
  tell(kCode, 3, 1, &record, {}, &user);
}

void unload_code_object() {
  CodeObjectRecord record{sizeof(CodeObjectRecord), loaded.id, {kGpuAgent}, 0, "", loaded.base, 0, loaded.delta, 2, 0, 0, 0};
  uint64_t user = 0;
  tell(kCode, 1, 2, &record, {}, &user);
}

struct DispatchRecord {
  uint64_t size, start, end, info;
  Id agent, queue;
  uint64_t kernel, id;
  uint32_t scratch, group, workgroup[3], grid[3];
  uint8_t padding[56];
};

void dispatch(const Work& work, uint32_t groups, uint32_t group) {
  std::vector<Place> places(work.places, work.places + work.place_count);
  uint64_t number = ++last_dispatch, duration = work.duration_ns, kernel = loaded.kernels.at(work.kernel), start = now(), agent = current_agent;
  DispatchRecord record{sizeof(DispatchRecord), start, start + duration, 128, {agent}, {7}, kernel, number, 128, 2048, {group, 1, 1},
                        {groups * group, 1, 1}, {}};
  Numbers call = numbers_of(11);
  Loaded code = loaded;
  std::string name = work.kernel;
  // The tool's word goes with the kernel as it is after the first of the two calls.
  uint64_t word = 0, kept;
  DispatchRecord queued = record;
  queued.start = queued.end = 0;
  tell(kDispatch, 1, 1, &queued, call, &word);
  kept = word;
  tell(kDispatch, 1, 2, &queued, call, &word);
  runtime.add([=]() mutable {
    uint64_t user = kept, at = 0;
    count_kernel(agent, name.c_str());
    for (const Place& place : places)
      for (int one = 0; one < place.count; one++) {
        uint64_t address = place.address + static_cast<uint64_t>(code.delta);
        sample(agent, place.address ? code.id : 0, place.address ? address - code.base : 0xdead, place.reason, start + ++at, number, call);
      }
    tell(kDispatch, 2, 0, &record, call, &user);
  });
}

struct CopyRecord {
  uint64_t size, start, end;
  Id to, from;
  uint64_t bytes, to_address, from_address, added;
};

void copy(uint64_t bytes) {
  uint64_t start = now();
  Numbers call = numbers_of(10);
  auto user = std::make_shared<uint64_t>(0);
  CopyRecord record{sizeof(CopyRecord), 0, 0, {current_agent}, {kCpu}, bytes, 0, 0, 0};
  tell(kCopy, 2, 1, &record, call, user.get());
  record.start = start;
  record.end = start + 5000;
  runtime.add([=]() mutable { tell(kCopy, 2, 2, &record, call, user.get()); });
}

void lose_samples(int count) {
  runtime.add([=] {
    uint64_t record = 8;
    for (int at = 0; at < count; at++) store(kGpuAgent, 1, &record, sizeof record);
  });
}

void sample_of_nothing() {
  runtime.add([] { sample(kGpuAgent, 0, 0xdead, 0, now(), 0, {}); });
}

void wait() { runtime.wait(); }

int device_count() { return is_gpu(kGpuAgent + 1) ? 2 : 1; }
void use_device(int number) { current_agent = kGpuAgent + static_cast<uint64_t>(number); }

void submit(const Work& work, uint32_t groups, uint32_t group, int times) {
  {
    Call index("hsa_queue_add_write_index_screlease");
  }
  {
    Call doorbell("hsa_signal_store_screlease");
    for (int at = 0; at < times && !is("beside"); at++) dispatch(work, groups, group);
  }
  for (int at = 0; at < times && is("beside"); at++) dispatch(work, groups, group);
}

void submit_copy(uint64_t bytes) {
  {
    Call call("hsa_amd_memory_async_copy", {0, kGpuAgent, 0, kCpu, bytes});
    if (!is("beside")) copy(bytes);
    call.ends(0);
  }
  if (is("beside")) copy(bytes);
}

void wait_for_signal() {
  for (int turn = 0; turn < 3; turn++) Call poll("hsa_signal_load_relaxed");
  Call call("hsa_signal_wait_scacquire");
  wait();
  call.ends(0x1000);  // a value that is no status
}

// A function that rocprofiler does not know is not wrapped, and one that nobody listens to is called as before.
Call::Call(const char* name, std::initializer_list<uint64_t> words)
    : kind_(0), operation_(-1), number_(0), outer_(current.internal), outer_ancestor_(current.ancestor) {
  size_t filled = 0;
  for (uint64_t one : words) payload_.words[filled++] = one;
  for (const Table& table : kTables)
    for (int at = 0; at < table.count; at++)
      if (!strcmp(table.names[at], name)) kind_ = table.kind, operation_ = at;
  payload_.size = sizeof payload_;
  if (kind_ != kHip) result_at_ = 15;
  if (operation_ < 0 || !is_heard(kind_, operation_)) return;
  number_ = ++last_call;
  current = {number_, outer_, {}};
  tell(kind_, operation_, 1, &payload_, current, &user_);
}

Call::~Call() {
  if (!number_) return;
  tell(kind_, operation_, 2, &payload_, {number_, outer_, {}}, &user_);
  current = {outer_, outer_ancestor_, {}};
}

}  // namespace fake
