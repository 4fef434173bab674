#include "spool/spool.hpp"

#include "base/assertion.hpp"
#include "base/clock.hpp"
#include "base/fresh_memory.hpp"
#include "base/large.hpp"
#include "base/own_process.hpp"
#include "base/places.hpp"
#include "base/sys.hpp"
#include "base/text.hpp"
#include "spool/control.hpp"
#include "spool/life.hpp"
#include "spool/reach.hpp"

#include <fcntl.h>

namespace aiflame::spool {

namespace {

constexpr size_t kLongestText = 1 << 20;

AIFLAME_LARGE TableFile tables[schema::kTables];
AIFLAME_LARGE TableFile strings;

// PID.START_NS, the folder of this process's tables below PROFILE/spool.
char folder[64];

std::atomic<bool> folder_made{false};
std::atomic<bool> opened{false};  // a table may be: until then their memory is not touched

// Content hash → reference, so that a name written a thousand times is stored once. Losing an entry costs a copy, nothing else. The
// first few share a page, so that a process which writes no more touches no more.
class Seen {
 public:
  std::atomic<uint64_t>* slot(uint64_t hash) noexcept {
    auto* slots = slots_.load(std::memory_order_acquire);
    if (!slots && !(slots = make())) return nullptr;
    return &slots[hash % (count_.load(std::memory_order_relaxed) < kFew ? 2 * kFew : kMost)];
  }
  void added() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }

  // The memory stays (it reads as zeros): a thread that is still searching finds nothing.
  void forget(fresh_memory::Who who) noexcept {
    count_.store(0, std::memory_order_relaxed);
    if (auto* slots = slots_.load(std::memory_order_relaxed)) fresh_memory::clear(slots, kBytes, who);
  }

 private:
  static constexpr uint32_t kFew = 256, kMost = 1 << 14;
  static constexpr size_t kBytes = kMost * sizeof(std::atomic<uint64_t>);

  std::atomic<uint64_t>* make() noexcept {
    auto* made = static_cast<std::atomic<uint64_t>*>(fresh_memory::map(kBytes));
    std::atomic<uint64_t>* slots = nullptr;
    if (!made || slots_.compare_exchange_strong(slots, made, std::memory_order_acq_rel)) return made;
    sys::unmap_memory(made, kBytes);
    return slots;
  }

  std::atomic<std::atomic<uint64_t>*> slots_{nullptr};
  std::atomic<uint32_t> count_{0};
};
constinit Seen seen;

// The check word of the entry that text() would write: length, then the bytes, padded with zeros.
Hash hash_of(std::string_view bytes) noexcept {
  Hash hash;
  hash.add(static_cast<uint64_t>(bytes.size()) << 32);
  uint64_t word;
  for (; bytes.size() >= sizeof word; bytes.remove_prefix(sizeof word)) {
    memcpy(&word, bytes.data(), sizeof word);
    hash.add(word);
  }
  if (!bytes.empty()) {
    word = 0;
    memcpy(&word, bytes.data(), bytes.size());
    hash.add(word);
  }
  return hash;
}

// Hashes of the notes that were recorded, from the first place on. When all places are used, no more notes are recorded.
std::atomic<bool> any_told{false};
AIFLAME_LARGE std::atomic<uint64_t> told[64];

// New tables have no notes. Most processes record none.
void forget_notes() noexcept {
  if (!any_told.load(std::memory_order_relaxed)) return;
  any_told.store(false, std::memory_order_relaxed);
  for (auto& place : told) place.store(0, std::memory_order_relaxed);
}

// True at the first call for a note, as long as there is a place.
bool is_new_note(std::string_view line) noexcept {
  uint64_t hash = hash_of(line).state | 1;
  any_told.store(true, std::memory_order_relaxed);
  for (auto& place : told) {
    uint64_t there = 0;
    if (place.compare_exchange_strong(there, hash)) return true;
    if (there == hash) return false;
  }
  return false;
}

template <class... Records>
void open_tables() noexcept {
  static_assert(sizeof...(Records) == schema::kTables);
  (tables[Records::kTable].open(folder, Records::kName, Records::kTable, sizeof(Records)), ...);
}

template <class... Records>
void give_tables(uint32_t user) noexcept {
  auto give = [user](const char* name) {
    char path[128];
    using text::put;
    *put(put(put(put(path, folder), "/"), name), ".table") = 0;
    reach::give_file(path, user);
  };
  (give(Records::kName), ...);
  give("strings");
}

const TextEntry* entry_at(uint32_t reference) noexcept { return static_cast<const TextEntry*>(strings.at(reference - 1)); }

void write_entry(void* place, std::string_view bytes, const Hash& checked) noexcept {
  auto* entry = static_cast<TextEntry*>(place);
  AIFLAME_ASSERT(bytes.size() <= kLongestText && reinterpret_cast<uint64_t>(place) % 8 == 0);
  entry->length = static_cast<uint32_t>(bytes.size());
  memcpy(entry + 1, bytes.data(), bytes.size());
  std::atomic_ref(entry->commit).store(checked.check(), std::memory_order_release);
}

uint32_t append_text(std::string_view bytes, const Hash& checked) noexcept {
  uint64_t index;
  void* entry = strings.reserve(units_of_text(bytes.size()), &index);
  if (!entry || index >= 0xFFFFFFFEu) return 0;
  write_entry(entry, bytes, checked);
  return static_cast<uint32_t>(index) + 1;
}

bool holds(uint32_t reference, std::string_view bytes) noexcept {
  const TextEntry* entry = entry_at(reference);
  return entry && entry->commit && entry->length == bytes.size() && memcmp(entry + 1, bytes.data(), bytes.size()) == 0;
}

}  // namespace

void open(uint64_t start_ns) noexcept {
  using text::put;
  *put(put(put(folder, own_process_id()), "."), start_ns) = 0;
  folder_made.store(false, std::memory_order_release);
  places::set_owner({overlaps, map_missing});
  control::forget_stop();
}

bool prepare_folder() noexcept {
  if (folder_made.load(std::memory_order_acquire)) return true;
  if (!control::recording()) return false;
  using namespace schema;
  opened.store(true, std::memory_order_relaxed);
  open_tables<AIFLAME_SCHEMA_RECORDS>();
  strings.open(folder, "strings", kStringsTable, 8);
  constexpr uint64_t kFolderBytes = 4096;
  if (!control::take(kFolderBytes)) return false;
  long made = reach::make_folder(folder);
  bool failed = sys::failed(made) && made != -17 /* EEXIST */;
  if (failed) control::stop(made == -28 ? schema::StopReason::NO_SPACE : schema::StopReason::IO_ERROR, static_cast<uint32_t>(-made));
  // A handler or another thread may get here, too: only one of them writes the rows.
  bool first = !failed && !folder_made.exchange(true, std::memory_order_acq_rel);
  if (!first)
    control::give_back(kFolderBytes);
  else
    life::write_rows();
  return !failed;
}

void map_ahead() noexcept {
  if (!prepare_folder()) return;
  constexpr uint64_t kLong = 4 << 20, kShort = 64 << 10;
  using namespace schema;
  for (uint32_t number : {StackNode::kTable, CpuSample::kTable, CodeRecord::kTable}) tables[number].map_ahead(kLong);
  for (uint32_t number : {ProcessEnd::kTable, ThreadRecord::kTable, ThreadEnd::kTable, ModuleRecord::kTable, MarkRecord::kTable, NoteRecord::kTable,
                          ClockRecord::kTable, LoopTurn::kTable})
    tables[number].map_ahead(kShort);
  strings.map_ahead(kLong);
}

void give_to(uint32_t user) noexcept {
  using namespace schema;
  give_tables<AIFLAME_SCHEMA_RECORDS>(user);
  reach::give_folder(folder, user);
}

void abandon() noexcept {
  if (opened.exchange(false, std::memory_order_relaxed)) {
    for (TableFile& file : tables) file.abandon();
    strings.abandon();
  }
  TableFile::eras.fetch_add(1, std::memory_order_relaxed);
  seen.forget(fresh_memory::Who::SAME_PROCESS);
  forget_notes();
}

void leave_behind(fresh_memory::Who who) noexcept {
  TableFile::eras.fetch_add(1, std::memory_order_relaxed);
  opened.store(false, std::memory_order_relaxed);
  seen.forget(who);
  forget_notes();
}

TableFile& table(uint32_t number) noexcept {
  AIFLAME_ASSERT(number < schema::kTables);
  return tables[number];
}

uint32_t era() noexcept { return TableFile::eras.load(std::memory_order_relaxed); }

bool covers(uint64_t address) noexcept {
  if (life::covers(address)) return true;
  if (!opened.load(std::memory_order_relaxed)) return false;
  for (const TableFile& file : tables)
    if (file.covers(address)) return true;
  return strings.covers(address);
}

bool overlaps(uint64_t address, uint64_t bytes) noexcept {
  if (control::overlaps(address, bytes) || life::overlaps(address, bytes)) return true;
  if (!opened.load(std::memory_order_relaxed)) return false;
  for (const TableFile& file : tables)
    if (file.overlaps(address, bytes)) return true;
  return strings.overlaps(address, bytes);
}

bool map_again(uint64_t address) noexcept {
  for (const TableFile& file : tables)
    if (file.covers(address)) return file.map_again(address);
  return strings.covers(address) ? strings.map_again(address) : life::map_again(address);
}

void map_missing() noexcept {
  control::map_missing();
  for (TableFile& file : tables) file.map_missing();
  strings.map_missing();
  life::map_missing();
}

uint32_t text(std::string_view bytes, const control::Use&) noexcept {
  if (bytes.empty() || !control::recording()) return 0;
  if (bytes.size() > kLongestText) bytes = bytes.substr(0, kLongestText);
  Hash checked = hash_of(bytes);
  uint64_t hash = checked.state;
  std::atomic<uint64_t>* slot = seen.slot(hash);
  uint64_t known = slot ? slot->load(std::memory_order_acquire) : 0;
  if (known && (known >> 32) == (hash >> 32) && holds(static_cast<uint32_t>(known), bytes)) return static_cast<uint32_t>(known);
  uint32_t reference = append_text(bytes, checked);
  if (!reference) return 0;
  if (slot) {
    slot->store((hash >> 32) << 32 | reference, std::memory_order_release);
    seen.added();
  }
  return reference;
}

void write_text(void* place, std::string_view bytes) noexcept { write_entry(place, bytes, hash_of(bytes)); }

void note(std::string_view line) noexcept {
  control::Use use;
  if (!control::recording() || !is_new_note(line)) return;
  append(schema::NoteRecord{.text = text(line), .time_ns = now_ns()});
}

}  // namespace aiflame::spool
