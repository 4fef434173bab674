// This process's tables. Every function may be called from a signal handler, and from any thread.
//
// A recording may end and another begin while others are still appending: who uses what at() gave, or an id after it was given,
// holds a control::Use for as long. Who holds one anyway gives it to the functions that ask for one.
#pragma once
#include "aiflame_schema.hpp"
#include "spool/control.hpp"
#include "spool/table_file.hpp"

#include <cstdint>
#include <cstring>
#include <string_view>

namespace aiflame::spool {

// Opens (or, after a fork, re-opens) the tables of this process under PROFILE/spool/PID.START_NS/; from here on it records.
bool open(uint64_t start_ns) noexcept;
// Lets go of the tables, which nobody uses any more.
void abandon() noexcept;
// The same where somebody may: their memory stays mapped.
void leave_behind() noexcept;

TableFile& table(uint32_t number) noexcept;

// The address lies in a mapping of one of the tables.
bool covers(uint64_t address) noexcept;

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

// Appends a record, 8-byte aligned, of a table known by its number alone.
inline uint32_t append_bytes(uint32_t number, const void* record, size_t bytes, const control::Use&) noexcept {
  uint64_t index;
  auto* slot = static_cast<char*>(table(number).reserve(1, &index));
  if (!slot) return 0;
  memcpy(slot + 4, static_cast<const char*>(record) + 4, bytes - 4);
  std::atomic_ref(*reinterpret_cast<uint32_t*>(slot)).store(check_word(record, bytes), std::memory_order_release);
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
