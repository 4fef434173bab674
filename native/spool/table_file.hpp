// A growing file of fixed-size units, mapped into memory in chunks that never move.
//
// Appending is one atomic add (reserve) and plain stores into the mapping; the kernel keeps the stored units when the process
// dies. Any thread or signal handler may append at any time: growing takes no lock (two that map the same chunk at once keep
// one mapping), and no file descriptor is held between calls (the program may close every descriptor it finds).
//
// Code that appends or reads holds a control::Use or a threads::Use, so that the mappings stay for that time.
#pragma once
#include "aiflame_schema.hpp"
#include "base/places.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace aiflame::spool {

class TableFile {
 public:
  // A number that changes when all tables are replaced. Their mappings stay (a thread may still use them), or were not inherited by the child of
  // a fork. A table forgets them when it is opened again: so the child need not copy the memory of tables that it never opens.
  static inline constinit std::atomic<uint32_t> eras{1};

  // PROFILE/spool/FOLDER/NAME.table; both texts must stay. Nothing is created until the first append.
  void open(const char* folder, const char* name, uint32_t table, uint32_t unit_bytes) noexcept;

  // The first unit, which is reserved in some tables (life::has_main_thread).
  void* first() noexcept;

  // Reserves room for `units` units next to each other: returns its address, and the index of the first. nullptr if recording has stopped.
  void* reserve(uint32_t units, uint64_t* index) noexcept;

  // Maps room for this many bytes ahead, for a process that may not be able to open the file again. It takes no disk until it is written to.
  void map_ahead(uint64_t bytes) noexcept;

  // The address of a unit that was reserved; nullptr if its chunk is not mapped.
  void* at(uint64_t index) const noexcept;

  // True if the address is in one of the mappings.
  bool covers(uint64_t address) const noexcept;
  // True if one of these addresses is.
  bool overlaps(uint64_t address, uint64_t bytes) const noexcept;
  // Restores the mapping around `address` after the program has unmapped or protected it. False if that is impossible.
  bool map_again(uint64_t address) const noexcept;
  // Maps each mapping again that the program has unmapped; at another address, if something else is mapped there now.
  void map_missing() noexcept;

  // Unmaps everything without touching the file.
  void abandon() noexcept;

 private:
  static constexpr uint64_t kSmallest = 4096;             // first chunk: most processes of a shell script write a row or two
  static constexpr uint64_t kLargest = 16 * 1024 * 1024;  // chunks double up to this size
  static constexpr uint32_t kDoubling = 14;               // chunks before the size stays at kLargest: 4K, 4K, 8K … 16M
  static_assert((kSmallest << (kDoubling - 2)) == kLargest);
  static constexpr uint32_t kMore = 32768;  // chunks after those: 512 GB a table, of which a ring frees the old ones
  static constexpr uint64_t kWorthResting = 1024 * 1024;
  static constexpr uint64_t kFirstBytes = schema::kHeaderBytes + kSmallest;
  struct Chunk {
    uint32_t number;
    uint64_t start, bytes;
  };
  using Slot = std::atomic<char*>;
  static Chunk chunk_of(uint64_t offset) noexcept;
  // A mapping, and its place in the file.
  struct Region {
    char* base;
    uint64_t bytes, start;
    uint32_t number;  // number of the chunk
    bool holds(uint64_t address) const noexcept { return base && places::range(base, bytes).holds(address); }
  };
  template <class Visit>
  void for_each_region(Visit visit) const noexcept;
  Region region_around(uint64_t address) const noexcept;
  bool map_at_its_place(const Region& region) const noexcept;
  void move(const Region& region) noexcept;
  // The sizes and places of chunks after the first.
  static constexpr uint64_t bytes_of(uint32_t number) noexcept { return number < kDoubling ? kSmallest << (number - 1) : kLargest; }
  static constexpr uint64_t start_of(uint32_t number) noexcept {
    return number < kDoubling ? kSmallest << (number - 1) : kLargest * (2 + uint64_t{number} - kDoubling);
  }
  Slot* slot_of(uint32_t number) noexcept;
  char* base_of(uint32_t number) const noexcept;
  enum class Room { ALLOCATED, SPARSE };
  char* map(const Chunk& chunk, Room room) noexcept;
  // Releases the memory of a full chunk, and of a large one the page tables: only chunks being written count as the program's memory.
  void rest(uint32_t number) const noexcept;
  schema::SpoolHeader* create() noexcept;
  void* map_file(int flags, uint64_t start, uint64_t bytes, Room room) const noexcept;
  struct Growth;
  long grow(const Growth& growth) const noexcept;
  static long map_part(long fd, const Growth& growth) noexcept;

  // nullptr if there is none for these tables.
  schema::SpoolHeader* header() const noexcept { return is_of_this_era() ? header_.load(std::memory_order_acquire) : nullptr; }
  uint32_t unit_bytes() const noexcept { return unit_bytes_.load(std::memory_order_relaxed); }
  bool is_of_this_era() const noexcept { return era_.load(std::memory_order_relaxed) == eras.load(std::memory_order_relaxed); }
  void forget() noexcept;

  // Threads whose first rows come at once may all open the table, with the same values.
  std::atomic<const char*> folder_{nullptr}, name_{nullptr};
  std::atomic<uint32_t> table_{0}, unit_bytes_{0};
  std::atomic<uint32_t> era_{0};                       // the era in which it was opened
  std::atomic<schema::SpoolHeader*> header_{nullptr};  // the first chunk is behind it, in the same mapping
  std::atomic<uint32_t> last_mapped_{0};               // chunks up to this may be mapped
  Slot doubling_[kDoubling] = {};                      // the first is unused
  std::atomic<Slot*> more_{nullptr};
};

}  // namespace aiflame::spool
