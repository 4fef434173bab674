// Every file that was ever mapped executable in this process: one view each, however often it is loaded again.
//
// A view keeps its file mapped, and with it the inode, so that no other file can take its number. Used by one writer at a time.
#pragma once
#include "base/sys.hpp"
#include "unwind/modules_elf.hpp"
#include "unwind/modules_maps.hpp"

#include <cstdint>
#include <cstring>

namespace aiflame::modules {

// Memory that grows by doubling, without libc.
template <class Item>
class Grown {
 public:
  // A zeroed item at the end; nullptr when there is no memory. Items move when this is called.
  Item* add() noexcept;
  Item& operator[](uint32_t at) noexcept { return items_[at]; }
  uint32_t size() const noexcept { return size_; }
  void clear() noexcept { size_ = 0; }

 private:
  Item* items_ = nullptr;
  uint32_t size_ = 0, capacity_ = 0;
};

struct FileView {
  uint64_t device, inode, size;
  int64_t modified_ns;
  uint32_t next;    // in its bucket
  uint32_t round;   // of the last refresh that listed it
  uint32_t placed;  // first of its placements, see modules.cpp
  ElfView elf;      // code_count 0: not an ELF file
};

class Views {
 public:
  // The view for an executable mapping; 0 for memory that belongs to no file. `image`: where the file's first byte is mapped, or 0.
  uint32_t of(const Mapping& mapping, uint64_t image, uint32_t round) noexcept;
  FileView& operator[](uint32_t view) noexcept { return views_[view - 1]; }

 private:
  uint32_t add(const Mapping& mapping, uint64_t image) noexcept;

  static constexpr uint32_t kBuckets = 1024;
  uint32_t buckets_[kBuckets] = {};
  Grown<FileView> views_;
};

template <class Item>
Item* Grown<Item>::add() noexcept {
  if (size_ == capacity_) {
    uint32_t capacity = capacity_ ? capacity_ * 2 : 64;
    auto* items = static_cast<Item*>(sys::map_memory(capacity * sizeof(Item)));
    if (!items) return nullptr;
    Item* old = items_;
    if (old) memcpy(static_cast<void*>(items), old, size_ * sizeof(Item));
    items_ = items;
    sys::unmap_memory(old, capacity_ * sizeof(Item));
    capacity_ = capacity;
  }
  Item* item = &items_[size_++];
  memset(static_cast<void*>(item), 0, sizeof(Item));
  return item;
}

}  // namespace aiflame::modules
