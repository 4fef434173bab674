// Small data from the program that we need as long as it runs: names of domains, registered strings.
#pragma once
#include <cstddef>
#include <string_view>

namespace aiflame::interned {

// Zeroed memory that is never given back; nullptr when there is none.
void* memory(size_t bytes) noexcept;

// A copy that stays and ends in 0; empty when there is no memory.
std::string_view copy(std::string_view text) noexcept;

template <class Thing>
Thing* thing() noexcept {
  return static_cast<Thing*>(memory(sizeof(Thing)));
}

}  // namespace aiflame::interned
