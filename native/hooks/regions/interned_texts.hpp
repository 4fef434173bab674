// Small data from the program that we keep to its end: names of domains, registered strings.
#pragma once
#include <cstddef>
#include <string_view>

namespace aiflame::interned {

// Zeroed memory that is never freed; nullptr if there is none.
void* memory(size_t bytes) noexcept;

// A permanent copy that ends in 0; empty if there is no memory.
std::string_view copy(std::string_view text) noexcept;

template <class Thing>
Thing* thing() noexcept {
  return static_cast<Thing*>(memory(sizeof(Thing)));
}

}  // namespace aiflame::interned
