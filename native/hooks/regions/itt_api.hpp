// The interface between ITT clients and collectors: names and layouts as in Intel's ittnotify.h and ittnotify_config.h, version 3.
#pragma once
#include <pthread.h>
#include <cstddef>
#include <cstdint>

namespace aiflame::itt {

// Handles. A client makes them itself until it has a collector; then it gets them from the collector.
struct Domain {
  volatile int flags;  // 0: the client skips its calls
  const char* name;
  const void* wide_name;
  int extra1;
  void* extra2;
  Domain* next;
};

struct StringHandle {
  const char* text;
  const void* wide_text;
  int extra1;
  void* extra2;
  StringHandle* next;
};

struct Counter {
  const char* name;
  const void* wide_name;
  const char* domain;
  const void* wide_domain;
  int type;    // MetadataType
  long value;  // the client's `index`, which it sets to 0 and never reads
  int extra1;
  void* extra2;
  Counter* next;
};

struct ApiInfo {
  const char* name;
  void** function;      // the pointer through which the client calls
  void* init_function;  // its value before the client looked for a collector
  void* null_function;  // its value for a function without a collector
  int group;
};

struct Global {
  unsigned char magic[8];
  unsigned long version_major, version_minor, version_build;
  volatile long api_initialized, mutex_initialized, atomic_counter;
  pthread_mutex_t mutex;
  void* library;
  void* error_handler;
  const char** library_path;
  ApiInfo* functions;  // ends with an entry without a name
  Global* next;
  void* threads;
  Domain* domains;
  StringHandle* strings;
};
constexpr unsigned long kOldestBuild = 20101002;  // before, ApiInfo had no null_function
static_assert(sizeof(Domain) == 48 && sizeof(StringHandle) == 40 && sizeof(Counter) == 72 && sizeof(ApiInfo) == 40);
static_assert(offsetof(Global, functions) == 120 && offsetof(Global, domains) == 144);

struct Id {
  unsigned long long d1, d2, d3;
};

enum MetadataType : int { UNKNOWN, U64, S64, U32, S32, U16, S16, FLOAT, DOUBLE };
enum Scope : int {};
using Timestamp = unsigned long long;
inline constexpr Timestamp kNow = ~0ull;

}  // namespace aiflame::itt
