#include "spool/table_file.hpp"

#include "base/apart.hpp"
#include "base/assertion.hpp"
#include "base/places.hpp"
#include "base/sys.hpp"
#include "base/text.hpp"
#include "spool/control.hpp"
#include "spool/file_room.hpp"
#include "spool/life.hpp"
#include "spool/reach.hpp"
#include "spool/spool.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>

namespace aiflame::spool {

void TableFile::open(const char* folder, const char* name, uint32_t table, uint32_t unit_bytes) noexcept {
  if (!is_of_this_era()) forget();
  folder_.store(folder, std::memory_order_relaxed);
  name_.store(name, std::memory_order_relaxed);
  table_.store(table, std::memory_order_relaxed);
  unit_bytes_.store(unit_bytes, std::memory_order_relaxed);
}

void* TableFile::first() noexcept {
  if (!header() && !create()) return nullptr;
  return base_of(0);
}

TableFile::Chunk TableFile::chunk_of(uint64_t offset) noexcept {
  if (offset < kSmallest) return {0, 0, kSmallest};
  if (offset < kLargest * 2) {
    uint32_t power = 63 - static_cast<uint32_t>(__builtin_clzll(offset / kSmallest));
    return {power + 1, kSmallest << power, kSmallest << power};
  }
  uint64_t beyond = (offset - kLargest * 2) / kLargest;
  return {kDoubling + static_cast<uint32_t>(beyond), kLargest * (2 + beyond), kLargest};
}

char* TableFile::base_of(uint32_t number) const noexcept {
  auto* first = reinterpret_cast<char*>(header());
  if (!first) return nullptr;
  if (number == 0) return first + schema::kHeaderBytes;
  if (number < kDoubling) return doubling_[number].load(std::memory_order_acquire);
  const Slot* more = more_.load(std::memory_order_acquire);
  return more && number - kDoubling < kMore ? more[number - kDoubling].load(std::memory_order_acquire) : nullptr;
}

void* TableFile::reserve(uint32_t units, uint64_t* index) noexcept {
  if (!control::recording()) return nullptr;
  schema::SpoolHeader* head = header();
  if (!head && !(head = create())) return nullptr;
  if (std::atomic_ref(head->magic).load(std::memory_order_relaxed) != schema::kSpoolMagic) [[unlikely]]
    return nullptr;  // the program has put memory of its own there
  uint64_t bytes = static_cast<uint64_t>(units) * unit_bytes();
  AIFLAME_ASSERT(bytes > 0 && unit_bytes() % 8 == 0);
  for (;;) {
    uint64_t first = std::atomic_ref(head->next).fetch_add(units, std::memory_order_relaxed);
    Chunk chunk = chunk_of(first * unit_bytes());
    uint64_t offset = first * unit_bytes() - chunk.start;
    AIFLAME_ASSERT(offset < chunk.bytes);
    // A record never straddles two chunks: the remainder of this one stays empty, and readers skip it.
    if (offset + bytes > chunk.bytes) {
      if (bytes > kLargest) return nullptr;
      continue;
    }
    char* base = base_of(chunk.number);
    if (!base && !(base = map(chunk, Room::ALLOCATED))) return nullptr;
    *index = first;
    AIFLAME_ASSERT(reinterpret_cast<uint64_t>(base + offset) % 8 == 0);
    return base + offset;
  }
}

void TableFile::map_ahead(uint64_t bytes) noexcept {
  if (!control::recording() || (!header() && !create())) return;
  for (uint64_t start = kSmallest; start < bytes;) {
    Chunk chunk = chunk_of(start);
    if (!base_of(chunk.number) && !map(chunk, Room::SPARSE)) return;
    start += chunk.bytes;
  }
}

void* TableFile::at(uint64_t index) const noexcept {
  Chunk chunk = chunk_of(index * unit_bytes());
  char* base = base_of(chunk.number);
  return base ? base + (index * unit_bytes() - chunk.start) : nullptr;
}

template <class Visit>
void TableFile::for_each_region(Visit visit) const noexcept {
  Region first{reinterpret_cast<char*>(header()), kFirstBytes, 0, 0};
  if (!first.base) return;
  visit(first);
  uint32_t last = last_mapped_.load(std::memory_order_acquire);
  for (uint32_t number = 1; number <= last; number++) {
    Region chunk{base_of(number), bytes_of(number), schema::kHeaderBytes + start_of(number), number};
    if (chunk.base) visit(chunk);
  }
}

TableFile::Region TableFile::region_around(uint64_t address) const noexcept {
  Region around{};
  for_each_region([&](const Region& region) noexcept {
    if (region.holds(address)) around = region;
  });
  return around;
}

bool TableFile::covers(uint64_t address) const noexcept { return region_around(address).base; }

bool TableFile::overlaps(uint64_t address, uint64_t bytes) const noexcept {
  bool overlap = false;
  for_each_region([&](const Region& region) noexcept { overlap |= places::range(region.base, region.bytes).overlaps(address, bytes); });
  return overlap;
}

void TableFile::abandon() noexcept {
  schema::SpoolHeader* head = header();
  if (!head) return;
  uint32_t last = last_mapped_.load(std::memory_order_relaxed);
  for (uint32_t number = 1; number <= last; number++)
    if (char* base = base_of(number)) sys::unmap_memory(base, bytes_of(number));
  if (Slot* more = more_.load(std::memory_order_relaxed)) sys::unmap_memory(more, kMore * sizeof *more);
  sys::unmap_memory(head, kFirstBytes);
  forget();
}

void TableFile::forget() noexcept {
  header_.store(nullptr);
  for (Slot& slot : doubling_) slot.store(nullptr, std::memory_order_relaxed);
  more_.store(nullptr, std::memory_order_relaxed);
  last_mapped_.store(0, std::memory_order_relaxed);
  era_.store(eras.load(std::memory_order_relaxed), std::memory_order_release);
}

namespace {

constexpr long kInterrupted = -EINTR;
constexpr long kNoRoom = -4095;  // no error of the kernel's: --max-size is reached

// The program may be out of descriptors for a moment, or close one that it does not know: the next append tries again.
bool passing(long error) noexcept { return error == -EMFILE || error == -ENFILE || error == -EBADF || error == kInterrupted; }

// FOLDER/NAME.table
class Path {
 public:
  Path(const char* folder, const char* name) noexcept {
    using text::put;
    *put(put(put(put(text_, folder), "/"), name), ".table") = 0;
  }
  const char* text() const noexcept { return text_; }

 private:
  char text_[128];
};

}  // namespace

// Extends the file by `bytes` if needed, and maps them at `address` (0: anywhere).
struct TableFile::Growth {
  int flags;
  uint64_t start, bytes;
  Room room = Room::ALLOCATED;
  bool there = false;
  uint64_t address = 0;
  int placed = MAP_FIXED_NOREPLACE;  // how it is mapped at `address`
};

long TableFile::map_part(long fd, const Growth& growth) noexcept {
  auto map = [&]() noexcept {
    return sys::call(SYS_mmap, static_cast<long>(growth.address), static_cast<long>(growth.bytes), PROT_READ | PROT_WRITE,
                     MAP_SHARED | (growth.address ? growth.placed : 0), fd, static_cast<long>(growth.start));
  };
  return growth.address ? map() : places::map_clear(growth.bytes, growth.there ? places::Mend::NO : places::Mend::YES, map);
}

// The address of the mapping, or an error number below zero.
long TableFile::grow(const Growth& growth) const noexcept {
  constexpr uint64_t kPage = 4096;
  Path path(folder_.load(std::memory_order_relaxed), name_.load(std::memory_order_relaxed));
  long fd = reach::open_in_spool(path.text(), O_RDWR | growth.flags);
  if (sys::failed(fd)) return fd;
  uint64_t end = growth.start + growth.bytes;
  bool there = growth.there;
  // Room ahead may never be used, and is small: it is not counted.
  bool booked = !there && growth.room == Room::ALLOCATED;
  // The last page alone makes the file as long: a store into the rest may meet a full disk, which ends the recording (sampler/signals).
  uint64_t allocated = growth.room == Room::SPARSE ? kPage : growth.bytes;
  long result = booked && !control::take(growth.bytes) ? kNoRoom : 0;
  if (!there && !sys::failed(result)) result = file_room::allocate(path.text(), fd, end - allocated, allocated);
  if (!sys::failed(result)) result = map_part(fd, growth);
  sys::call(SYS_close, fd);
  // The child of a fork has its own tables: the kernel need not copy mappings that it would only remove.
  if (!sys::failed(result)) sys::call(SYS_madvise, result, static_cast<long>(growth.bytes), MADV_DONTFORK);
  if (booked && sys::failed(result) && result != kNoRoom) control::give_back(growth.bytes);
  return result;
}

void* TableFile::map_file(int flags, uint64_t start, uint64_t bytes, Room room) const noexcept {
  struct Attempt {
    const TableFile& file;
    Growth growth;
    long result;
  } attempt{*this, {flags, start, bytes, room}, 0};
  auto run = [](void* pointer) noexcept {
    auto* made = static_cast<Attempt*>(pointer);
    made->result = made->file.grow(made->growth);
  };
  run(&attempt);
  if (attempt.result == -EMFILE) run_apart(run, &attempt);
  long result = attempt.result;
  if (!sys::failed(result)) return reinterpret_cast<void*>(result);
  if (result == kNoRoom) return nullptr;
  if (!passing(result)) {
    bool full = result == -ENOSPC || result == -EDQUOT;
    control::stop(full ? schema::StopReason::NO_SPACE : schema::StopReason::IO_ERROR, static_cast<uint32_t>(-result));
  }
  return nullptr;
}

bool TableFile::map_again(uint64_t address) const noexcept {
  Region region = region_around(address);
  if (!region.base) return false;
  auto base = reinterpret_cast<uint64_t>(region.base);
  if (!sys::failed(sys::call(SYS_mprotect, static_cast<long>(base), static_cast<long>(region.bytes), PROT_READ | PROT_WRITE))) return true;
  return map_at_its_place(region);
}

// If something else has been mapped there meanwhile, even in part, it belongs to the program.
bool TableFile::map_at_its_place(const Region& region) const noexcept {
  auto base = reinterpret_cast<uint64_t>(region.base);
  return grow({.flags = 0, .start = region.start, .bytes = region.bytes, .there = true, .address = base}) == static_cast<long>(base);
}

void TableFile::move(const Region& region) noexcept {
  long address = grow({.flags = 0, .start = region.start, .bytes = region.bytes, .there = true});
  if (sys::failed(address)) return;
  auto* base = reinterpret_cast<char*>(address);
  if (region.number == 0)
    header_.store(reinterpret_cast<schema::SpoolHeader*>(base), std::memory_order_release);
  else
    slot_of(region.number)->store(base, std::memory_order_release);
}

void TableFile::map_missing() noexcept {
  for_each_region([this](const Region& region) noexcept {
    if (!places::is_mapped(places::range(region.base, region.bytes)) && !map_at_its_place(region)) move(region);
  });
}

TableFile::Slot* TableFile::slot_of(uint32_t number) noexcept {
  AIFLAME_ASSERT(number > 0 && number < kDoubling + kMore);  // the first chunk is with the header
  if (number < kDoubling) return &doubling_[number];
  Slot* more = more_.load(std::memory_order_acquire);
  if (!more) {
    auto* made = static_cast<Slot*>(sys::map_memory(kMore * sizeof(Slot)));
    if (!made) return nullptr;
    if (more_.compare_exchange_strong(more, made, std::memory_order_acq_rel))
      more = made;
    else
      sys::unmap_memory(made, kMore * sizeof(Slot));
  }
  return &more[number - kDoubling];
}

char* TableFile::map(const Chunk& chunk, Room room) noexcept {
  if (chunk.number >= kDoubling + kMore) {
    control::stop(schema::StopReason::MAX_SIZE, 0);
    return nullptr;
  }
  Slot* slot = slot_of(chunk.number);
  auto* base = slot ? static_cast<char*>(map_file(0, schema::kHeaderBytes + chunk.start, chunk.bytes, room)) : nullptr;
  if (!base) return nullptr;
  for (uint32_t last = last_mapped_.load(); last < chunk.number && !last_mapped_.compare_exchange_weak(last, chunk.number);) {
  }
  char* already = nullptr;
  if (slot->compare_exchange_strong(already, base, std::memory_order_acq_rel)) {
    if (chunk.number > 1) rest(chunk.number - 1);
    return base;
  }
  sys::unmap_memory(base, chunk.bytes);
  if (room == Room::ALLOCATED) control::give_back(chunk.bytes);
  return already;
}

// Its pages stay in the file, and are loaded again when touched. Page tables are freed with a mapping alone (2 MB of them for each GB), so that the
// same part of the file is mapped anew over it, at once for all threads.
void TableFile::rest(uint32_t number) const noexcept {
  char* base = base_of(number);
  uint64_t bytes = bytes_of(number);
  if (!base || bytes < kWorthResting) return;
  auto address = reinterpret_cast<uint64_t>(base);
  sys::call(SYS_madvise, static_cast<long>(address), static_cast<long>(bytes), MADV_DONTNEED);
  if (bytes < kLargest) return;
  grow({.flags = 0, .start = schema::kHeaderBytes + start_of(number), .bytes = bytes, .there = true, .address = address, .placed = MAP_FIXED});
}

schema::SpoolHeader* TableFile::create() noexcept {
  if (!prepare_folder() || !folder_.load(std::memory_order_relaxed)) return nullptr;
  auto* header = static_cast<schema::SpoolHeader*>(map_file(O_CREAT, 0, kFirstBytes, Room::ALLOCATED));
  if (!header) return nullptr;
  // Two threads may do this at the same time: they write the same values into the same file, and `next` only once.
  header->format = schema::kFormat;
  uint32_t number = table_.load(std::memory_order_relaxed);
  header->table = number;
  header->record_bytes = unit_bytes();
  header->pid = sys::process_id();
  uint64_t none = 0;
  if (number == schema::ThreadRecord::kTable && life::has_main_thread()) std::atomic_ref(header->next).compare_exchange_strong(none, 1);
  std::atomic_ref(header->magic).store(schema::kSpoolMagic, std::memory_order_release);
  schema::SpoolHeader* already = nullptr;
  if (header_.compare_exchange_strong(already, header)) return header;
  sys::unmap_memory(header, kFirstBytes);
  control::give_back(kFirstBytes);
  return already;
}

}  // namespace aiflame::spool
