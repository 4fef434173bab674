// Memory whose content is useless to the child of a fork, which reads zeros there. Its pages are neither copied nor released one by one.
#pragma once
#include <cstddef>

namespace aiflame::fresh_memory {

// Zeroed memory; nullptr if the kernel gives none. Unmapped like other memory (sys::unmap_memory).
void* map(size_t bytes) noexcept;

enum class Who : unsigned char {
  SAME_PROCESS,
  CHILD  // the child of a fork that has not written there yet
};
// Makes the memory read as zeros.
void clear(void* memory, size_t bytes, Who who) noexcept;

}  // namespace aiflame::fresh_memory
