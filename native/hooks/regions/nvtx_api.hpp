// The interface between NVTX clients and tools, versions 2 and 3: numbers and layouts as in NVIDIA's nvToolsExt.h and nvtxTypes.h.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::nvtx {

struct Domain;            // a handle of ours; nullptr: the default one
struct RegisteredString;  // a handle of ours

enum ExportTable : uint32_t { CALLBACKS = 1 };
enum Module : uint32_t { CORE = 1, CORE2 = 5 };

enum Core : uint32_t {
  MARK_EX = 1,
  MARK_A,
  MARK_W,
  RANGE_START_EX,
  RANGE_START_A,
  RANGE_START_W,
  RANGE_END,
  RANGE_PUSH_EX,
  RANGE_PUSH_A,
  RANGE_PUSH_W,
  RANGE_POP,
  NAME_CATEGORY_A,
  NAME_CATEGORY_W,
  NAME_OS_THREAD_A,
  NAME_OS_THREAD_W,
};

enum Core2 : uint32_t {
  DOMAIN_MARK_EX = 1,
  DOMAIN_RANGE_START_EX,
  DOMAIN_RANGE_END,
  DOMAIN_RANGE_PUSH_EX,
  DOMAIN_RANGE_POP,
  DOMAIN_RESOURCE_CREATE,
  DOMAIN_RESOURCE_DESTROY,
  DOMAIN_NAME_CATEGORY_A,
  DOMAIN_NAME_CATEGORY_W,
  DOMAIN_REGISTER_STRING_A,
  DOMAIN_REGISTER_STRING_W,
  DOMAIN_CREATE_A,
  DOMAIN_CREATE_W,
  DOMAIN_DESTROY,
  INITIALIZE,
};

// A client keeps the pointers that it calls here: each entry points to one, or is null.
using Function = void (*)();
struct Callbacks {
  size_t struct_size;
  int (*get_module_function_table)(uint32_t module, Function*** table, unsigned* size);
};
using GetExportTable = const void* (*)(uint32_t table);

enum ColorType : int32_t { ARGB = 1 };
enum MessageType : int32_t { ASCII = 1, UNICODE = 2, REGISTERED = 3 };
enum PayloadType : int32_t { UNSIGNED_64 = 1, SIGNED_64 = 2, DOUBLE = 3, UNSIGNED_32 = 4, SIGNED_32 = 5, FLOAT = 6 };

struct Attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  uint64_t payload;
  int32_t message_type;
  const void* message;
};
static_assert(sizeof(Attributes) == 48 && offsetof(Attributes, payload) == 24 && offsetof(Attributes, message) == 40);

using RangeId = uint64_t;
// The result of push and pop: we count no levels. The same as without any tool.
inline constexpr int kNoTracking = -2;

}  // namespace aiflame::nvtx
