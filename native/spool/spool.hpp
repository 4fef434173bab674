// This process's tables. Every function may be called from a signal handler, and from any thread.
//
// A recording may end and another begin while others are still appending: who uses what at() gave, or an id after it was given,
// holds a control::Use (or, of a thread's own, a threads::Use) for as long. Who holds one anyway gives it to the functions that ask for one.
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

// Opens (or, after a fork, re-opens) the tables of this process under PROFILE/spool/PID.START_NS/; from here on it records. The folder is
// made with the first row: most processes of a script have none, and all that is recorded of them is their life (spool/life.hpp).
void open(uint64_t start_ns) noexcept;
// Makes the folder, with what it begins with: the rows of this process and its main thread. False where it cannot be.
bool prepare_folder() noexcept;
// The process may soon be unable to open its tables again: those that any process needs to its end are mapped ahead.
void map_ahead() noexcept;
// Gives the tables to the user that this process is about to become (reach::keep() comes first): it goes on writing to them.
void give_to(uint32_t user) noexcept;
// Lets go of the tables, which nobody uses any more.
void abandon() noexcept;
// The same where somebody may: their memory stays mapped.
void leave_behind(fresh_memory::Who who) noexcept;

TableFile& table(uint32_t number) noexcept;

// What the header of a strings stream says instead.
inline constexpr uint32_t kStringsTable = 0xffff;
// A text, there and in the file of lives: check word and length, then the bytes, padded to 8.
struct TextEntry {
  uint32_t commit, length;
};
inline uint32_t units_of_text(size_t length) noexcept { return static_cast<uint32_t>((sizeof(TextEntry) + length + 7) / 8); }
// Writes one where there is room for it.
void write_text(void* place, std::string_view bytes) noexcept;

// The address lies in a mapping of one of the tables.
bool covers(uint64_t address) noexcept;
// The same of one of so many addresses, of the control page's too.
bool overlaps(uint64_t address, uint64_t bytes) noexcept;
// The program has unmapped or protected that mapping: it is as before. False where that cannot be.
bool map_again(uint64_t address) noexcept;
// Maps again whatever else the program has unmapped, before the kernel gives the address of one table to another.
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

// Its check word last: who reads meanwhile finds all of it, or nothing.
inline void write_row(void* slot, const void* record, size_t bytes) noexcept {
  AIFLAME_ASSERT(bytes >= 8 && bytes % 8 == 0 && reinterpret_cast<uint64_t>(slot) % 8 == 0);
  memcpy(static_cast<char*>(slot) + 4, static_cast<const char*>(record) + 4, bytes - 4);
  std::atomic_ref(*static_cast<uint32_t*>(slot)).store(check_word(record, bytes), std::memory_order_release);
}

// Appends a record, 8-byte aligned, of a table known by its number alone.
inline uint32_t append_bytes(uint32_t number, const void* record, size_t bytes, const control::Use&) noexcept {
  uint64_t index;
  void* slot = table(number).reserve(1, &index);
  if (!slot) return 0;
  write_row(slot, record, bytes);
  return static_cast<uint32_t>(index) + 1;
}
inline uint32_t append_bytes(uint32_t number, const void* record, size_t bytes) noexcept { return append_bytes(number, record, bytes, {}); }

// Appends a record; its id, counted from 1, or 0 when nothing is recorded any more.
template <class Record>
uint32_t append(const Record& record, const control::Use& use) noexcept {
  return append_bytes(Record::kTable, &record, sizeof(Record), use);
}
template <class Record>
uint32_t append(const Record& record) noexcept {
  return append(record, control::Use());
}

// Another number when tables are others.
uint32_t era() noexcept;

// Records that one thread appends, of a table in which ids do not matter. It reserves rows for some of them at a time: as a rule an append
// touches nothing that another thread writes. Rows that are left over stay unwritten, which a reader passes over.
template <class Record>
class Rows {
 public:
  // As long as tables are in use. False when nothing is recorded any more.
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

  // They are another thread's from here on.
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

// A record appended earlier by this process; nullptr for id 0 or an unmapped one.
template <class Record>
const Record* at(uint32_t id) noexcept {
  return id ? static_cast<const Record*>(table(Record::kTable).at(id - 1)) : nullptr;
}

// Bytes into the strings stream; the same bytes give the same reference most of the time. 0 for no bytes, or when stopped.
uint32_t text(std::string_view bytes, const control::Use& use) noexcept;
inline uint32_t text(std::string_view bytes) noexcept { return text(bytes, control::Use()); }

// A one-line note on what could not be done; each distinct text is kept once a process, and no more than 64 of them: no numbers
// in it that differ each time.
void note(std::string_view text) noexcept;

}  // namespace aiflame::spool
