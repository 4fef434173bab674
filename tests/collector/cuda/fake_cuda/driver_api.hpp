// For the files that define functions of the driver's API.
#pragma once
#include <cupti.h>

#include <mutex>

#include "driver.hpp"

#define API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI
#define CBID(name) CUPTI_DRIVER_TRACE_CBID_##name

namespace fake::driver {

// The lock of all objects of the driver.
std::recursive_mutex& lock();
using Guard = std::lock_guard<std::recursive_mutex>;

bool may_break_captures();
void wait_until(uint64_t end);

}  // namespace fake::driver
