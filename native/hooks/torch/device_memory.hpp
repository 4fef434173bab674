// Blocks of torch's caching allocator of device memory → `pool_blocks`, and requests that it refused → `memory_refusals`.
//
// The allocator reports each block that it gives or takes back to a function of c10, which passes it on to torch's own profiler while
// that runs. We call that function ourselves, after a look at its arguments: torch's profiler, and its history of allocations, see no difference.
#pragma once

namespace aiflame::torch_memory {

// From now on the allocators of this libtorch are observed.
void listen(void* library) noexcept;

}  // namespace aiflame::torch_memory
