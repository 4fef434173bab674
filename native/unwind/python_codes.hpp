// Code objects as rows of `codes`: the data for readers are copied when the code first occurs, in the handler that sees it.
#pragma once
#include "unwind/python_layout.hpp"

#include <cstddef>
#include <cstdint>

namespace aiflame::python {

// Addresses of types, which distinguish an object from stale memory.
struct Types {
  uint64_t code, text, bytes;
};

namespace codes {

inline constexpr uint32_t kIdBits = 28;  // as a frame word has room for

// Not for signal handlers; before any other.
void use(const Layout& layout, const Types& types) noexcept;

// The row of the code object at `address`; 0 when no code object is there, or nothing is recorded any more. With it, the bit kLayerCall
// for the code that calls a torch module's forward: its first argument is the module.
inline constexpr uint32_t kLayerCall = 1u << kIdBits;
uint32_t look_up(uint64_t address) noexcept;
inline uint32_t id_of(uint64_t address) noexcept { return look_up(address) & (kLayerCall - 1); }

// From here on, code objects that are freed are forgotten, and counted. `slot` reads one of a type's functions (PyType_GetSlot). Not for signal
// handlers.
void count_freed(void* (*slot)(void* type, int number)) noexcept;
// While this number does not change, the address of a code object that was looked up means the same code and the same row. 0: unknown.
uint64_t era() noexcept;

// UTF-8 of the str at `address`, or the contents of the bytes there; returns the number of bytes, at most `room`. 0 for other objects.
size_t copy_text(uint64_t address, char* out, size_t room) noexcept;
size_t copy_bytes(uint64_t address, char* out, size_t room) noexcept;

void forget_rows() noexcept;

}  // namespace codes

}  // namespace aiflame::python
