// Functions of the driver of Level Zero that the loader does not have.
#include "ze_extensions.hpp"

#include <map>
#include <string>

#include "ze_device.hpp"

namespace sleeper {

namespace {

uint64_t newer_function(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  return a + b + c + d + e + f + g + h;
}
// As in Intel's zex_event.h: an event that needs no pool, and is never reset.
struct CountingDescription {
  uint32_t type;
  const void* next;
  uint32_t flags, signal, wait;
};
ze_result_t counting_event_create(ze_context_handle_t, ze_device_handle_t, const CountingDescription* desc, ze_event_handle_t* event) {
  std::lock_guard lock(mutex);
  expect(desc->type == 0x30024 && !desc->next, "a counting event's description of an unknown type");
  expect((desc->flags & 48) != 48, "an event has time stamps of both kinds");
  auto* made = new Event;
  made->counts = true;
  made->host_visible = desc->flags & 4;
  made->timestamps = desc->flags & 16;
  return give(event, made);
}
ze_result_t append_lists(ze_command_list_handle_t handle, uint32_t count, ze_command_list_handle_t* lists, ze_event_handle_t, uint32_t,
                         ze_event_handle_t*) {
  std::lock_guard lock(mutex);
  expect(the<List>(handle).immediate, "lists are appended to a list that is not immediate");
  for (uint32_t at = 0; at < count; at++) {
    List& list = the<List>(lists[at]);
    if (!list.closed) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    for (const Command& command : list.commands) submit(command);
  }
  return ZE_RESULT_SUCCESS;
}

}  // namespace

ze_result_t extension_function(ze_driver_handle_t, const char* name, void** function) {
  const std::map<std::string, void*> functions{
      {"zexNewerFunction", reinterpret_cast<void*>(newer_function)},
      {"zexCounterBasedEventCreate2", reinterpret_cast<void*>(counting_event_create)},
      {"zeCommandListImmediateAppendCommandListsExp", reinterpret_cast<void*>(append_lists)},
  };
  auto found = functions.find(name);
  if (found == functions.end()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *function = found->second;
  return ZE_RESULT_SUCCESS;
}

}  // namespace sleeper
