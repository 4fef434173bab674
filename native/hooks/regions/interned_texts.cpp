#include "hooks/regions/interned_texts.hpp"

#include "base/sys.hpp"

#include <atomic>
#include <cstring>

namespace aiflame::interned {

namespace {

struct Chunk {
  static constexpr size_t kBytes = 64 * 1024;
  std::atomic<size_t> used;
};

constinit std::atomic<Chunk*> current{nullptr};

}  // namespace

void* memory(size_t bytes) noexcept {
  constexpr size_t kAlign = 16;
  bytes = (bytes + kAlign - 1) & ~(kAlign - 1);
  if (bytes > Chunk::kBytes / 4) return sys::map_memory(bytes);
  for (;;) {
    Chunk* chunk = current.load(std::memory_order_acquire);
    if (chunk) {
      size_t at = chunk->used.fetch_add(bytes, std::memory_order_relaxed) + kAlign;
      if (at + bytes <= Chunk::kBytes) return reinterpret_cast<char*>(chunk) + at;
    }
    auto* more = static_cast<Chunk*>(sys::map_memory(Chunk::kBytes));
    if (!more) return nullptr;
    if (!current.compare_exchange_strong(chunk, more, std::memory_order_acq_rel)) sys::unmap_memory(more, Chunk::kBytes);
  }
}

std::string_view copy(std::string_view text) noexcept {
  auto* bytes = static_cast<char*>(memory(text.size() + 1));
  if (!bytes) return {};
  memcpy(bytes, text.data(), text.size());
  return {bytes, text.size()};
}

}  // namespace aiflame::interned
