// PROFILE/spool/lives.table: the file to which all processes of a recording write that they began and ended.
//
// Behind its header it is pages. A page holds records from its front and the texts that they refer to from its back, so that a process
// that writes a few of both touches one page of the file, and one of its header; the child of a fork touches the page alone, in which
// its parent has reserved a record before. The file is mapped from its beginning, with room for what it will grow to, and the children of
// forks inherit the mapping: who lives for a millisecond opens nothing.
//
// Other processes may write anything into the file: what is read there is checked before it leads anywhere.
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

  // What is reserved at once: a record, or units of 8 bytes for a text.
  struct Wanted {
    uint16_t records;
    uint32_t units;
  };

  // Room for a record: its place in the file. 0 where the file cannot be had, or once recording has stopped.
  uint64_t reserve() noexcept { return reserve({.records = 1, .units = 0}); }
  // The record there, to be written to; nullptr where the program has put memory of its own.
  Life* at(uint64_t place) noexcept;

  // Adds a text. A reference as those to texts of the strings stream; 0 for none.
  uint32_t append(std::string_view text) noexcept;
  // A text that this process or its parent has added; empty where it cannot be read.
  std::string_view text(uint32_t reference) const noexcept;

  // The reference that a process has remembered under this key, which says for what: processes that are alike need not look up again what
  // they have in common. 0: none. It may have been forgotten.
  uint32_t recall(uint64_t key) const noexcept;
  void remember(uint64_t key, uint32_t reference) noexcept;

  // The child of a fork has one thread, which may have interrupted another as it mapped the file.
  void after_fork() noexcept { busy_.store(false, std::memory_order_relaxed); }

  // As of a TableFile.
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
  std::atomic<uint64_t> file_bytes_{0};  // the file has at least as many; what is mapped beyond them must not be touched
  Region regions_[kRegions] = {};        // each from the file's beginning; only the newest is written to by those who come
};

}  // namespace aiflame::spool
