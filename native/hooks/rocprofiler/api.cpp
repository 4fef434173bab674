#include "hooks/rocprofiler/api.hpp"

#include "hooks/libc/dlsym.hpp"
#include "unwind/modules.hpp"

#include <dlfcn.h>
#include <cstdio>

namespace aiflame::rocprofiler {

namespace {

Sdk functions;
Counting counting_functions;
bool can_count = false;
uint64_t low = 0, high = 0;

template <class Function>
bool look_up(void* library, const char* name, Function*& function) noexcept {
  char full[128];
  snprintf(full, sizeof full, "rocprofiler_%s", name);
  function = reinterpret_cast<Function*>(hooks::real_dlsym(library, full));
  return function != nullptr;
}

}  // namespace

const Sdk& sdk() noexcept { return functions; }

const Counting* counting() noexcept { return can_count ? &counting_functions : nullptr; }

bool is_inside(uint64_t pc) noexcept { return pc - low < high - low; }

bool find(const void* address) noexcept {
  Dl_info place;
  if (!dladdr(address, &place) || !place.dli_fname) return false;
  void* library = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return false;
  modules::refresh();
  if (modules::Module module{}; modules::find(reinterpret_cast<uint64_t>(address), &module)) {
    low = module.low;
    high = module.high;
  }
  can_count = look_up(library, "iterate_agent_supported_counters", counting_functions.iterate_agent_supported_counters) &&
              look_up(library, "query_counter_info", counting_functions.query_counter_info) &&
              look_up(library, "query_record_counter_id", counting_functions.query_record_counter_id) &&
              look_up(library, "create_counter_config", counting_functions.create_counter_config) &&
              look_up(library, "configure_device_counting_service", counting_functions.configure_device_counting_service) &&
              look_up(library, "sample_device_counting_service", counting_functions.sample_device_counting_service);
  look_up(library, "configure_external_correlation_id_request_service", functions.configure_external_correlation_id_request_service);
  return look_up(library, "query_available_agents", functions.query_available_agents) &&
         look_up(library, "create_context", functions.create_context) && look_up(library, "start_context", functions.start_context) &&
         look_up(library, "stop_context", functions.stop_context) && look_up(library, "create_buffer", functions.create_buffer) &&
         look_up(library, "flush_buffer", functions.flush_buffer) &&
         look_up(library, "configure_callback_tracing_service", functions.configure_callback_tracing_service) &&
         look_up(library, "iterate_callback_tracing_kind_operations", functions.iterate_callback_tracing_kind_operations) &&
         look_up(library, "query_callback_tracing_kind_operation_name", functions.query_callback_tracing_kind_operation_name) &&
         look_up(library, "query_pc_sampling_agent_configurations", functions.query_pc_sampling_agent_configurations) &&
         look_up(library, "configure_pc_sampling_service", functions.configure_pc_sampling_service) &&
         look_up(library, "get_timestamp", functions.get_timestamp);
}

}  // namespace aiflame::rocprofiler
