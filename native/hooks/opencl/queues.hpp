// Creates command queues with profiling enabled, and hides that from the program.
#pragma once
#include "hooks/opencl/api.hpp"

namespace aiflame::opencl {

Queue create_queue(Context context, DeviceId device, uint64_t properties, int32_t* error) noexcept;
Queue create_queue_with_properties(Context context, DeviceId device, const uint64_t* properties, int32_t* error) noexcept;
int32_t release_queue(Queue queue) noexcept;

// The properties that the program requested, without those that we added.
int32_t get_queue_info(Queue queue, uint32_t name, size_t room, void* value, size_t* size) noexcept;
int32_t get_event_profiling_info(Event event, uint32_t name, size_t room, void* value, size_t* size) noexcept;

}  // namespace aiflame::opencl
