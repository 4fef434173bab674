#include "hooks/cuda/call_bytes.hpp"

#include <cuda.h>
#include <cupti.h>

#include <cstddef>
#include <cstring>
#include <iterator>

namespace aiflame::cuda::bytes {

namespace {

// The product of up to three words and the bytes of an element.
struct Layout {
  char function[40];  // not a pointer, which would be relocated at the start of every program
  uint8_t element;
  uint8_t offset;  // of the first word; the others come right after it
  uint8_t words;
  bool pointed;  // the words lie in the memory that the first parameter points to
};

constexpr uint8_t kRectangleBehind = offsetof(CUDA_MEMCPY2D, WidthInBytes), kBlockBehind = offsetof(CUDA_MEMCPY3D, WidthInBytes);

constexpr Layout kLayouts[] = {
#define BYTES(element, offset, function, ...) {#function, element, offset, 1, false},
#define RECTANGLE(element, offset, function, ...) {#function, element, offset, 2, false},
#define EXTENT(offset, function) {#function, 1, offset, 3, false},
#define POINTED_RECTANGLE(function) {#function, 1, kRectangleBehind, 2, true},
#define POINTED_BLOCK(function) {#function, 1, kBlockBehind, 3, true},
#include "hooks/cuda/call_bytes.inc"
#undef BYTES
#undef RECTANGLE
#undef EXTENT
#undef POINTED_RECTANGLE
#undef POINTED_BLOCK
};
static_assert(std::size(kLayouts) < 256, "a number is a byte");

#define LIES_AT(function, at, parameter) static_assert(offsetof(function##_params, parameter) == (at) && sizeof(function##_params::parameter) == 8);
#define BYTES(element, offset, function, parameter) LIES_AT(function, offset, parameter)
#define RECTANGLE(element, offset, function, width, height) LIES_AT(function, offset, width) LIES_AT(function, offset + 8, height)
#define EXTENT(at, function) static_assert(offsetof(function##_params, extent) == (at) && sizeof(function##_params::extent) == 24);
#define POINTED_RECTANGLE(function) static_assert(offsetof(function##_params, pCopy) == 0 && sizeof(*function##_params::pCopy) == 128);
#define POINTED_BLOCK(function) static_assert(offsetof(function##_params, pCopy) == 0 && sizeof(*function##_params::pCopy) == 200);
#include "hooks/cuda/call_bytes.inc"
static_assert(kRectangleBehind == 112 && offsetof(CUDA_MEMCPY2D, Height) == 120);
static_assert(kBlockBehind == 176 && offsetof(CUDA_MEMCPY3D, Height) == 184 && offsetof(CUDA_MEMCPY3D, Depth) == 192);
static_assert(offsetof(CUDA_MEMCPY3D_PEER, WidthInBytes) == kBlockBehind && offsetof(CUDA_MEMCPY3D_PEER, Depth) == 192);

uint64_t word(const void* at) noexcept {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

uint8_t find(std::string_view name) noexcept {
  for (size_t at = 0; at < std::size(kLayouts); at++)
    if (std::string_view(kLayouts[at].function) == name) return static_cast<uint8_t>(at + 1);
  return 0;
}

uint64_t asked_for(uint8_t number, const void* parameters, bool succeeded) noexcept {
  const Layout& layout = kLayouts[number - 1];
  auto* from = static_cast<const char*>(parameters);
  if (layout.pointed && !succeeded) return 0;
  if (layout.pointed) from = reinterpret_cast<const char*>(word(from));
  uint64_t bytes = layout.element;
  for (uint8_t at = 0; at < layout.words; at++) bytes *= word(from + layout.offset + at * 8);
  return bytes;
}

}  // namespace aiflame::cuda::bytes
