// The modules of the driver of Level Zero. It writes to ZE_DRIVER_MODULES when it loaded, linked and unloaded each: the act, address and time.
#pragma once
#include <level_zero/zet_api.h>

#include "ze_device.hpp"

namespace [[gnu::visibility("hidden")]] sleeper {

ze_result_t module_create(ze_context_handle_t, ze_device_handle_t, const ze_module_desc_t* desc, ze_module_handle_t* module,
                          ze_module_build_log_handle_t*);
ze_result_t module_link(uint32_t count, ze_module_handle_t* modules, ze_module_build_log_handle_t*);
ze_result_t module_debug_info(zet_module_handle_t handle, zet_module_debug_info_format_t format, size_t* size, uint8_t* bytes);

}  // namespace sleeper
