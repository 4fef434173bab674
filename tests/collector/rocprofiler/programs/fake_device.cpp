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

void sample(uint64_t code_object, uint64_t offset, int reason, uint64_t time, uint64_t dispatch, uint64_t internal) {
  if (sampling.method == 1) {
    Stochastic record{};
    record.size = sizeof record;
    record.issued_type = static_cast<uint8_t>((reason < 0) | 3 << 1);
    record.code_object = code_object;
    record.offset = offset;
    record.time = time;
    record.dispatch = dispatch;
    record.internal = internal;
    record.snapshot = 0xABCD0u << 4 | static_cast<uint32_t>(reason < 0 ? 0 : reason);
    store(3, &record, sizeof record);
  } else {
    HostTrap record{};
    record.size = sizeof record;
    record.code_object = code_object;
    record.offset = offset;
    record.time = time;
    record.dispatch = dispatch;
    record.internal = internal;
    store(2, &record, sizeof record);
  }
}

struct Loaded {
  uint64_t id = 0, base = 0;
  int64_t delta = 0;
  std::map<std::string, uint64_t> kernels;
} loaded;
std::atomic<uint64_t> last_call{0};
uint64_t last_dispatch = 0, last_code_object = 0, last_kernel = 0;
thread_local uint64_t current_call = 0;

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
  tell(kCode, 1, 1, &record, 0, 0, &user);
  for (size_t at = 0; at < count; at++) {
    std::string name = std::string(kernels[at]) + ".kd";
    loaded.kernels[kernels[at]] = ++last_kernel;
    SymbolRecord symbol{sizeof(SymbolRecord), last_kernel, loaded.id, name.c_str(), 0x1000, 16, 16, 1024, 64, 32, 24, 8, 0, 0, 0};
    tell(kCode, 2, 1, &symbol, 0, 0, &user);
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
  tell(kCode, 3, 1, &record, 0, 0, &user);
}

void unload_code_object() {
  CodeObjectRecord record{sizeof(CodeObjectRecord), loaded.id, {kGpuAgent}, 0, "", loaded.base, 0, loaded.delta, 2, 0, 0, 0};
  uint64_t user = 0;
  tell(kCode, 1, 2, &record, 0, 0, &user);
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
  uint64_t number = ++last_dispatch, call = current_call, duration = work.duration_ns, kernel = loaded.kernels.at(work.kernel), start = now();
  DispatchRecord record{sizeof(DispatchRecord), start, start + duration, 128, {kGpuAgent}, {7}, kernel, number, 128, 2048, {group, 1, 1},
                        {groups * group, 1, 1}, {}};
  Loaded code = loaded;
  std::string name = work.kernel;
  // The tool's word goes with the kernel as it is after the first of the two calls.
  uint64_t word = 0, kept;
  DispatchRecord queued = record;
  queued.start = queued.end = 0;
  tell(kDispatch, 1, 1, &queued, call, 0, &word);
  kept = word;
  tell(kDispatch, 1, 2, &queued, call, 0, &word);
  runtime.add([=]() mutable {
    uint64_t user = kept, at = 0;
    count_kernel(name.c_str());
    for (const Place& place : places)
      for (int one = 0; one < place.count; one++) {
        uint64_t address = place.address + static_cast<uint64_t>(code.delta);
        sample(place.address ? code.id : 0, place.address ? address - code.base : 0xdead, place.reason, start + ++at, number, call);
      }
    tell(kDispatch, 2, 0, &record, call, 0, &user);
  });
}

struct CopyRecord {
  uint64_t size, start, end;
  Id to, from;
  uint64_t bytes, to_address, from_address, added;
};

void copy(uint64_t bytes) {
  uint64_t call = current_call, start = now();
  auto user = std::make_shared<uint64_t>(0);
  CopyRecord record{sizeof(CopyRecord), 0, 0, {kGpuAgent}, {kCpu}, bytes, 0, 0, 0};
  tell(kCopy, 2, 1, &record, call, 0, user.get());
  record.start = start;
  record.end = start + 5000;
  runtime.add([=]() mutable { tell(kCopy, 2, 2, &record, call, 0, user.get()); });
}

void lose_samples(int count) {
  runtime.add([=] {
    uint64_t record = 8;
    for (int at = 0; at < count; at++) store(1, &record, sizeof record);
  });
}

void sample_of_nothing() {
  runtime.add([] { sample(0, 0xdead, 0, now(), 0, 0); });
}

void wait() { runtime.wait(); }

// A function that rocprofiler does not know is not wrapped.
Call::Call(const char* name, std::initializer_list<uint64_t> words) : operation_(-1), number_(0), outer_(current_call) {
  payload_.size = sizeof payload_;
  size_t filled = 0;
  for (uint64_t one : words) payload_.words[filled++] = one;
  for (int at = 0; at < kHipCount; at++)
    if (!strcmp(kHipNames[at], name)) operation_ = at;
  if (operation_ < 0) return;
  number_ = ++last_call;
  current_call = number_;
  tell(kHip, operation_, 1, &payload_, number_, outer_, &user_);
}

Call::~Call() {
  if (operation_ < 0) return;
  tell(kHip, operation_, 2, &payload_, number_, outer_, &user_);
  current_call = outer_;
}

}  // namespace fake
