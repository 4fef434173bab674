// Functions whose calls are not only recorded, but interpreted: Fact::watch.
#pragma once
#include <cstdint>

namespace aiflame::stand_in {

enum class HipWatch : uint8_t { NONE, GIVES_FUNCTION };

// Each function's case in level_zero.cpp gives the order of the arguments that it reads.
enum class ZeWatch : uint8_t {
  NONE,
  GIVES_FUNCTION,
  CREATE_POOL,
  DESTROY_POOL,
  POOL_FLAGS,
  CREATE_EVENT,
  CREATE_COUNTING_EVENT,
  DESTROY_EVENT,
  RESET_EVENT,
  CREATE_LIST,
  CREATE_IMMEDIATE,
  RESET_LIST,
  DESTROY_LIST,
  CREATE_QUEUE,
  DESTROY_QUEUE,
  DESTROY_CONTEXT,
  CREATE_MODULE,
  LINK_MODULES,
  DESTROY_MODULE,
  GROUP_SIZE,
  DESTROY_KERNEL,
  LAUNCH,
  LAUNCH_INDIRECT,
  LAUNCH_WITH_PARAMETERS,
  LAUNCH_WITH_ARGUMENTS,
  COPY,
  COPY_WITH_PARAMETERS,
  COPY_REGION,
  COPY_FROM_CONTEXT,
  FILL,
  FILL_WITH_PARAMETERS,
  EXECUTE,
  APPEND_LISTS,
  APPEND_LISTS_WITH_PARAMETERS,
  WAIT,
  POLL,
};

}  // namespace aiflame::stand_in
