// Functions of the driver of Level Zero that the loader does not have.
#pragma once
#include <level_zero/ze_api.h>

namespace [[gnu::visibility("hidden")]] sleeper {

ze_result_t extension_function(ze_driver_handle_t, const char* name, void** function);

}  // namespace sleeper
