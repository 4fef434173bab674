// PROFILE/spool/lives.table: the file in which all processes of a recording record their start and end.
//
// After its header it consists of pages. A page holds records from its front and their texts from its back, so that a process that writes a few of
// both touches one page and the header; the child of a fork touches only the page in which its parent has reserved a record. The file is mapped from
// its beginning, with room for growth, and children of forks inherit the mapping: a process that lives for a millisecond opens nothing.
//
// Other processes may write anything into the file, so values read from it are checked before they are used.
#pragma once
#include "aiflame_schema.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace aiflame::spool {

struct Life {
  schema::LifeRecord begin;
  schema::LifeEnd end;
};

class SharedLives {
 public:
  static constexpr uint64_t kLargest = 1024 * 1024 * 1024;  // five million processes
  static constexpr uint32_t kRegions = 4;

  // A reservation: a record, or units of 8 bytes for a text.
  struct Wanted {
    uint16_t records;
    uint32_t units;
  };

  // Reserves room for a record and returns its place in the file. 0 if the file is not available, or recording has stopped.
  uint64_t reserve() noexcept { return reserve({.records = 1, .units = 0}); }
  // The record at that place, for writing; nullptr if the program has mapped its own memory there.
  Life* at(uint64_t place) noexcept;

  // Adds a text; returns a reference like those of the strings stream, 0 for none.
  uint32_t append(std::string_view text) noexcept;
  // A text that this process or its parent has added; empty if it cannot be read.
  std::string_view text(uint32_t reference) const noexcept;

  // The reference that a process has stored under this key, so that similar processes need not look up the same facts again. 0: none; it may have
  // been overwritten.
  uint32_t recall(uint64_t key) const noexcept;
  void remember(uint64_t key, uint32_t reference) noexcept;

  // In the child of a fork: its only thread may have interrupted another as that mapped the file.
  void after_fork() noexcept { busy_.store(false, std::memory_order_relaxed); }

  // The same as in TableFile.
  bool covers(uint64_t address) const noexcept { return region_around(address) != nullptr; }
  bool overlaps(uint64_t address, uint64_t bytes) const noexcept;
  bool map_again(uint64_t address) const noexcept;
  void map_missing() noexcept;
  void abandon() noexcept;
  void leave_behind() noexcept;

 private:
  static constexpr uint64_t kSmallest = 16 * 1024;  // the file, header and all; it doubles when it is full
  struct Region {
    char* base;
    uint64_t bytes;
  };
  const Region* region_around(uint64_t address) const noexcept;
  char* base() const noexcept;
  bool reaches(uint64_t end) const noexcept;
  bool map_up_to(uint64_t end) noexcept;
  bool reach_out(uint64_t end) noexcept;
  // Places are counted in bytes from the file's beginning; 0: none.
  uint64_t reserve(Wanted wanted) noexcept;
  uint64_t reserve_in(uint64_t number, Wanted wanted) noexcept;
  uint64_t reserve_in_new_page(Wanted wanted) noexcept;
  uint64_t reserve_pages(uint32_t units) noexcept;
  uint64_t new_pages(uint64_t count, uint64_t content) noexcept;

  std::atomic<uint32_t> count_{0};
  std::atomic<bool> busy_{false};
  std::atomic<uint64_t> file_bytes_{0};  // the file has at least as many; memory mapped beyond them must not be touched
  Region regions_[kRegions] = {};        // each from the file's beginning; new accesses use only the newest
};

}  // namespace aiflame::spool
