// The collector, in front of us among the preloaded libraries.
#pragma once
#include "records/host_memory.hpp"

extern "C" __attribute__((weak, visibility("default"))) const aiflame::host_memory::Interface* aiflame_host_memory() noexcept;

namespace aiflame::memory::collector {

// nullptr: it is not in this process.
inline const host_memory::Interface* interface() noexcept { return aiflame_host_memory ? aiflame_host_memory() : nullptr; }

inline uint64_t every() noexcept {
  const host_memory::Interface* there = interface();
  return there ? there->every() : 0;
}

}  // namespace aiflame::memory::collector
