// The tables of this process. Every function may be called from a signal handler, and from any thread.
//
// A recording may end and another begin while other threads are still appending: code that uses a result of at(), or an id, holds a control::Use for
// that time (or, in its own thread, a threads::Use). Functions with a Use parameter are for callers that hold one anyway.
#pragma once
#include "aiflame_schema.hpp"
#include "base/assertion.hpp"
#include "base/fresh_memory.hpp"
#include "spool/control.hpp"
#include "spool/table_file.hpp"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

namespace aiflame::spool {

// Opens (or, after a fork, re-opens) the tables of this process under PROFILE/spool/PID.START_NS/; from here on it records. The folder is made with
// the first row: most processes of a script have none, and are only recorded by their life (spool/life.hpp).
void open(uint64_t start_ns) noexcept;
// Makes the folder, with the rows of this process and its main thread. False if that fails.
bool prepare_folder() noexcept;
// Maps the tables ahead that every process needs until its end, since this one may soon be unable to open them.
void map_ahead() noexcept;
// Makes the user that this process is about to become the owner of the tables, so that it can continue to write (reach::keep() comes first).
void give_to(uint32_t user) noexcept;
// Unmaps the tables, which no thread uses any more.
void abandon() noexcept;
// Forgets the tables while a thread may still use them: their memory stays mapped.
void leave_behind(fresh_memory::Who who) noexcept;

TableFile& table(uint32_t number) noexcept;

// The value that the header of a strings stream has instead.
inline constexpr uint32_t kStringsTable = 0xffff;
// A text, in the strings stream and in the file of lives: check word and length, then the bytes, padded to 8.
struct TextEntry {
  uint32_t commit, length;
};
inline uint32_t units_of_text(size_t length) noexcept { return static_cast<uint32_t>((sizeof(TextEntry) + length + 7) / 8); }
// Writes a text to memory with enough room.
void write_text(void* place, std::string_view bytes) noexcept;

// True if the address is in a mapping of a table.
bool covers(uint64_t address) noexcept;
// True if any of these addresses is, or is in the control page.
bool overlaps(uint64_t address, uint64_t bytes) noexcept;
// Restores that mapping after the program has unmapped or protected it. False if that is impossible.
bool map_again(uint64_t address) noexcept;
// Maps again everything that the program has unmapped, before the kernel gives one table's address to another.
void map_missing() noexcept;

// The hash under every check word: over 8-byte words, in order.
struct Hash {
  uint64_t state = 0x9E3779B97F4A7C15u;
  void add(uint64_t word) noexcept {
    state = (state ^ word) * 0xD6E8FEB86659FD93u;
    state ^= state >> 32;
  }
  uint32_t check() const noexcept { return static_cast<uint32_t>(state) | 1; }
};

// The check word of a finished record: any flipped bit changes it, and it is never 0.
inline uint32_t check_word(const void* record, size_t bytes) noexcept {
  Hash hash;
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t word;
    memcpy(&word, static_cast<const char*>(record) + at, 8);
    hash.add(at == 0 ? word & ~0xFFFFFFFFull : word);  // without the place of the check word itself
  }
  return hash.check();
}

// Writes the check word last: a concurrent reader sees the complete record, or none.
inline void write_row(void* slot, const void* record, size_t bytes) noexcept {
  AIFLAME_ASSERT(bytes >= 8 && bytes % 8 == 0 && reinterpret_cast<uint64_t>(slot) % 8 == 0);
  memcpy(static_cast<char*>(slot) + 4, static_cast<const char*>(record) + 4, bytes - 4);
  std::atomic_ref(*static_cast<uint32_t*>(slot)).store(check_word(record, bytes), std::memory_order_release);
}

// Appends a record, 8-byte aligned, to a table that is given by its number.
inline uint32_t append_bytes(uint32_t number, const void* record, size_t bytes, const control::Use&) noexcept {
  uint64_t index;
  void* slot = table(number).reserve(1, &index);
  if (!slot) return 0;
  write_row(slot, record, bytes);
  return static_cast<uint32_t>(index) + 1;
}
inline uint32_t append_bytes(uint32_t number, const void* record, size_t bytes) noexcept { return append_bytes(number, record, bytes, {}); }

// Appends a record and returns its id, counted from 1, or 0 if nothing is recorded any more.
template <class Record>
uint32_t append(const Record& record, const control::Use& use) noexcept {
  return append_bytes(Record::kTable, &record, sizeof(Record), use);
}
template <class Record>
uint32_t append(const Record& record) noexcept {
  return append(record, control::Use());
}

// A number that changes when tables are replaced.
uint32_t era() noexcept;

// Appends records of one thread, to a table in which ids do not matter. It reserves several rows at a time, so that an append usually touches
// nothing that another thread writes. Unused rows stay empty, and readers skip them.
template <class Record>
class Rows {
 public:
  // Valid as long as tables are in use. False if recording has stopped.
  bool append(const Record& record) noexcept {
    if (!control::recording()) return false;
    if (busy_) return spool::append(record) != 0;  // in a handler, or since one left by a jump
    busy_ = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    char* row = next();
    if (row) write_row(row, &record, sizeof record);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    busy_ = false;
    return row != nullptr;
  }

  // Gives up the remaining rows: from here on another thread uses this.
  void settle() noexcept { busy_ = false; }

 private:
  static constexpr uint32_t kAtOnce = 32;

  char* next() noexcept {
    if (!left_ || era_ != era()) {
      uint64_t index;
      era_ = era();
      row_ = static_cast<char*>(table(Record::kTable).reserve(kAtOnce, &index));
      left_ = row_ ? kAtOnce : 0;
    }
    if (!left_) return nullptr;
    AIFLAME_ASSERT(left_ <= kAtOnce);
    left_--;
    return std::exchange(row_, row_ + sizeof(Record));
  }

  char* row_;
  uint32_t era_, left_;
  bool busy_;
};

// A record that this process appended earlier; nullptr for id 0 or an unmapped one.
template <class Record>
const Record* at(uint32_t id) noexcept {
  return id ? static_cast<const Record*>(table(Record::kTable).at(id - 1)) : nullptr;
}

// Adds bytes to the strings stream; the same bytes usually give the same reference. 0 for no bytes, or if recording has stopped.
uint32_t text(std::string_view bytes, const control::Use& use) noexcept;
inline uint32_t text(std::string_view bytes) noexcept { return text(bytes, control::Use()); }

// Records a one-line note about a failure. Each distinct text is stored once per process, 64 at most: so it must not contain numbers that differ each
// time.
void note(std::string_view text) noexcept;

}  // namespace aiflame::spool
