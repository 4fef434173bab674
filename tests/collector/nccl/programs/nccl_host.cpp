// Drives a profiler plugin as NCCL does: nccl_host VERSION SCENE. The library is the one that NCCL_PROFILER_PLUGIN names; of the versions up to
// VERSION the newest that it has is used. Layouts are those of NCCL's own headers, version by version.
//
// Scenes: `calls` (a group with an all-reduce in it, a broadcast, a send, a receive), `aborted` (an all-reduce that does not end before its
// communicator does), `unknown` (events of kinds that no version here has), `many` (more events under way than anybody keeps).
#include <dlfcn.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr uint64_t kHash = 0x1234abcd5678ef01;
constexpr int kRank = 2, kRanks = 4;

struct Plugin {
  const char* name;
  void *init, *start, *stop, *record, *finalize;
};

struct Descriptor {  // big enough for all
  alignas(8) unsigned char bytes[256];

  // Bytes that NCCL leaves undefined are not zero here.
  explicit Descriptor() { memset(bytes, 0xa5, sizeof bytes); }
  template <class Value>
  void put(size_t offset, Value value) {
    memcpy(bytes + offset, &value, sizeof value);
  }
};

int version;
Plugin* plugin;
void* context;
int mask = 0x55;

constexpr int kGroup = 1, kCollective = 2, kPeerToPeer = 4, kProxy = 8, kGroupCall = 256;

void begin_of(Descriptor* event, uint64_t kind) {
  if (version >= 5)
    event->put<uint64_t>(0, kind);
  else
    event->put<uint8_t>(0, static_cast<uint8_t>(kind));
  event->put<void*>(8, nullptr);
  event->put<int>(16, kRank);
}

struct Collective {
  const char* function;
  uint8_t number;
  size_t count;
  int root;
};

// Where each version has its fields, counted from the descriptor's begin.
Descriptor collective(const Collective& of) {
  Descriptor event;
  begin_of(&event, kCollective);
  size_t at = 24;
  if (version < 4) {
    event.put<const char*>(at, "world");
    event.put<uint64_t>(at + 8, kHash);
    at += 16;
  }
  event.put<uint64_t>(at, 7);  // sequence
  if (version == 1)
    event.put<uint8_t>(at + 8, of.number);
  else
    event.put<const char*>(at + 8, of.function);
  event.put<size_t>(at + 32, of.count);
  event.put<int>(at + 40, of.root);
  if (version == 1) {
    event.put<uint8_t>(at + 44, 7);   // ncclFloat32
    event.put<uint8_t>(at + 64, 24);  // channels
    event.put<uint8_t>(at + 66, 1);   // ring
    event.put<uint8_t>(at + 67, 1);   // LL128
  } else {
    event.put<const char*>(at + 48, "ncclFloat32");
    size_t rest = at + (version == 2 ? 64 : 56);
    event.put<uint8_t>(rest, 24);
    event.put<const char*>(rest + 8, "RING");
    event.put<const char*>(rest + 16, "LL128");
  }
  return event;
}

Descriptor peer_to_peer(const char* function, uint8_t number, size_t count, int peer) {
  Descriptor event;
  begin_of(&event, kPeerToPeer);
  size_t at = 24;
  if (version < 4) {
    event.put<const char*>(at, "world");
    event.put<uint64_t>(at + 8, kHash);
    at += 16;
  }
  if (version == 1) {
    event.put<uint8_t>(at, number);
    event.put<uint8_t>(at + 16, 5);  // ncclUint64
  } else {
    event.put<const char*>(at, function);
    event.put<const char*>(at + 16, "ncclUint64");
  }
  event.put<size_t>(at + 24, count);
  event.put<int>(at + 32, peer);
  return event;
}

Descriptor plain(uint64_t kind) {
  Descriptor event;
  begin_of(&event, kind);
  return event;
}

void check(int result) {
  if (result != 0) exit(3);
}

void* start(Descriptor event) {
  void* handle = &event;
  check(reinterpret_cast<int (*)(void*, void**, void*)>(plugin->start)(context, &handle, &event));
  return handle;
}

void stop(void* handle) {
  if (handle) check(reinterpret_cast<int (*)(void*)>(plugin->stop)(handle));
}

void init() {
  if (version >= 5)
    check(reinterpret_cast<int (*)(void**, uint64_t, int*, const char*, int, int, int, void*)>(plugin->init)(&context, kHash, &mask, "world", 1,
                                                                                                             kRanks, kRank, nullptr));
  else if (version == 4)
    check(reinterpret_cast<int (*)(void**, int*, const char*, uint64_t, int, int, int, void*)>(plugin->init)(&context, &mask, "world", kHash, 1,
                                                                                                             kRanks, kRank, nullptr));
  else
    check(reinterpret_cast<int (*)(void**, int*)>(plugin->init)(&context, &mask));
}

void finalize() { check(reinterpret_cast<int (*)(void*)>(plugin->finalize)(context)); }

void calls() {
  void* group = start(plain(version >= 5 ? kGroupCall : kGroup));
  void* reduce = start(collective({"AllReduce", 4, 1000, 0}));
  usleep(20'000);
  stop(reduce);
  stop(group);
  stop(start(collective({"Broadcast", 0, 10, 3})));
  stop(start(peer_to_peer("Send", 6, 5, 1)));
  void* receive = start(peer_to_peer("Recv", 7, 6, 3));
  if (receive) reinterpret_cast<int (*)(void*, int, void*)>(plugin->record)(receive, 99, nullptr);
  stop(receive);
}

void many() {
  std::vector<void*> handles;
  for (int at = 0; at < 5000; at++) handles.push_back(start(collective({"AllGather", 2, 1, 0})));
  for (void* handle : handles) stop(handle);
}

}  // namespace

int main(int, char** arguments) {
  version = atoi(arguments[1]);
  std::string scene = arguments[2];
  void* library = dlopen(getenv("NCCL_PROFILER_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  if (!library) return 2;
  while (version > 0 && !(plugin = static_cast<Plugin*>(dlsym(library, ("ncclProfiler_v" + std::to_string(version)).c_str())))) version--;
  if (!plugin) return 4;
  init();
  if (scene == "calls") calls();
  if (scene == "aborted") start(collective({"AllReduce", 4, 1000, 0}));
  if (scene == "unknown")
    for (uint64_t kind : {kProxy, 16, 32, 64, 128}) stop(start(plain(kind)));
  if (scene == "many") many();
  finalize();
  dlclose(library);
  printf("%s %d %x\n", plugin ? "done" : "", version, mask);
  return 0;
}
