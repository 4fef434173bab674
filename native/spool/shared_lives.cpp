#include "spool/shared_lives.hpp"

#include "base/apart.hpp"
#include "base/assertion.hpp"
#include "base/places.hpp"
#include "base/sys.hpp"
#include "spool/control.hpp"
#include "spool/file_room.hpp"
#include "spool/reach.hpp"
#include "spool/spool.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <span>

namespace aiflame::spool {

namespace {

constexpr char kPath[] = "lives.table";
constexpr uint32_t kLivesTable = 0xfffe;
constexpr uint64_t kPage = schema::kLivesPageBytes, kWord = 8;
static_assert(kPage == schema::kHeaderBytes);

struct Memory {
  uint64_t key;
  uint32_t reference, check;
};
constexpr size_t kMemories = 128;
struct Header {
  schema::SpoolHeader file;
  uint64_t current;  // the page that is being filled, counted from 1
  Memory memories[kMemories];
};
static_assert(sizeof(Header) <= schema::kHeaderBytes);

// A value that another process is writing, or has partly overwritten, counts as absent.
uint32_t check_of(uint64_t key, uint32_t reference) noexcept {
  Hash hash;
  hash.add(key);
  hash.add(reference);
  return hash.check();
}

// The first word of a page describes its content: a tag, and the number of records and of units of texts; or a tag and the number of pages of one
// long text.
struct Content {
  uint32_t tag;
  uint16_t records, units;
};
constexpr uint64_t kRoom = kPage - sizeof(Content);
static_assert(sizeof(Content) == kWord && schema::kLivesInPage * sizeof(Life) <= kRoom);

// The last reservation.
uint64_t place_in_page(const Content& content, const SharedLives::Wanted& wanted) noexcept {
  AIFLAME_ASSERT(content.records >= wanted.records && content.units >= wanted.units && content.units <= kRoom / kWord);
  return wanted.records ? sizeof(Content) + (content.records - 1) * sizeof(Life) : kPage - content.units * kWord;
}

uint64_t word(Content content) noexcept { return __builtin_bit_cast(uint64_t, content); }
bool fits(const Content& content) noexcept { return content.records * sizeof(Life) + content.units * kWord <= kRoom; }

// Bytes mapped at once, though the file may be shorter: every further mapping costs each fork of the process 2 µs.
constexpr uint64_t kRooms[] = {1 << 20, 1 << 24, 1 << 28, SharedLives::kLargest};
static_assert(std::size(kRooms) == SharedLives::kRegions);

// The file, made at least `end` bytes long, and mapped from its beginning.
struct Mapping {
  enum class Extent : uint8_t { NONE, AS_GIVEN, WITH_ROOM };

  uint64_t end;
  Extent extent;
  uint64_t mapped = 0;   // as given, or as mapped
  uint64_t address = 0;  // 0: anywhere
  places::Mend mend = places::Mend::YES;
  uint64_t file_bytes = 0;
  long result = 0;  // the address, or an error number below zero

  void make() noexcept {
    long fd = reach::open_in_spool(kPath, O_RDWR);
    if (fd == -ENOENT) fd = reach::open_in_spool(kPath, O_RDWR | O_CREAT);
    result = fd;
    if (sys::failed(fd)) return;
    result = grow(fd);
    auto map = [this, fd]() noexcept {
      return sys::call(SYS_mmap, static_cast<long>(address), static_cast<long>(mapped), PROT_READ | PROT_WRITE,
                       MAP_SHARED | (address ? MAP_FIXED_NOREPLACE : 0), fd, 0);
    };
    if (extent == Extent::WITH_ROOM) mapped = *std::ranges::lower_bound(kRooms, file_bytes);
    if (!sys::failed(result) && mapped) result = address ? map() : places::map_clear(mapped, mend, map);
    sys::call(SYS_close, fd);
  }

 private:
  long grow(long fd) noexcept {
    long size = sys::call(SYS_lseek, fd, 0, SEEK_END);
    if (sys::failed(size)) return size;
    auto there = static_cast<uint64_t>(size) / kPage * kPage;
    file_bytes = std::min(std::max(there, end), SharedLives::kLargest);  // another process may have made it of any length
    return there < end ? book(fd, there) : 0;
  }

  // (Two processes that grow it in the same moment both book it.)
  long book(long fd, uint64_t there) const noexcept {
    if (!control::take(end - there)) return -ENOSPC;
    long allocated = file_room::allocate(kPath, fd, there, end - there);
    if (sys::failed(allocated)) control::give_back(end - there);
    return allocated;
  }
};

}  // namespace

Life* SharedLives::at(uint64_t place) noexcept {
  if (!place || !reaches(place + sizeof(Life))) return nullptr;
  AIFLAME_ASSERT(place >= schema::kHeaderBytes && place % kWord == 0);
  std::atomic_ref content(*reinterpret_cast<uint64_t*>(base() + place / kPage * kPage));
  // As in reserve_in(): the page is written to next.
  bool ours = __builtin_bit_cast(Content, content.fetch_add(0, std::memory_order_relaxed)).tag == schema::kLivesPage;
  return ours ? reinterpret_cast<Life*>(base() + place) : nullptr;
}

uint32_t SharedLives::append(std::string_view bytes) noexcept {
  if (bytes.empty()) return 0;
  uint64_t place = reserve({.records = 0, .units = units_of_text(bytes.size())});
  if (!place) return 0;
  write_text(base() + place, bytes);
  return static_cast<uint32_t>((place - schema::kHeaderBytes) / kWord) + 1;
}

std::string_view SharedLives::text(uint32_t reference) const noexcept {
  if (!reference) return "";
  uint64_t at = schema::kHeaderBytes + (reference - 1) * kWord;
  if (!reaches(at + sizeof(TextEntry))) return "";
  auto* entry = reinterpret_cast<TextEntry*>(base() + at);
  // Its check word comes last, perhaps from another process.
  if (!std::atomic_ref(entry->commit).load(std::memory_order_acquire)) return "";
  uint32_t length = entry->length;
  if (!reaches(at + sizeof(TextEntry) + length)) return "";
  return {reinterpret_cast<const char*>(entry + 1), length};
}

uint32_t SharedLives::recall(uint64_t key) const noexcept {
  if (!base()) return 0;
  Memory& memory = reinterpret_cast<Header*>(base())->memories[key % kMemories];
  uint32_t reference = std::atomic_ref(memory.reference).load(std::memory_order_relaxed);
  bool whole = std::atomic_ref(memory.key).load(std::memory_order_relaxed) == key &&
               std::atomic_ref(memory.check).load(std::memory_order_relaxed) == check_of(key, reference);
  return whole ? reference : 0;
}

void SharedLives::remember(uint64_t key, uint32_t reference) noexcept {
  if (!base() || !reference) return;
  Memory& memory = reinterpret_cast<Header*>(base())->memories[key % kMemories];
  std::atomic_ref(memory.key).store(key, std::memory_order_relaxed);
  std::atomic_ref(memory.reference).store(reference, std::memory_order_relaxed);
  std::atomic_ref(memory.check).store(check_of(key, reference), std::memory_order_relaxed);
}

// In the page that is being filled, or in a new one.
uint64_t SharedLives::reserve(Wanted wanted) noexcept {
  if (!control::recording() || !map_up_to(schema::kHeaderBytes)) return 0;
  auto* header = reinterpret_cast<Header*>(base());
  if (std::atomic_ref(header->file.magic).load(std::memory_order_relaxed) != schema::kSpoolMagic) [[unlikely]]
    return 0;  // the program has put memory of its own there
  uint64_t current = std::atomic_ref(header->current).load(std::memory_order_acquire);
  if (uint64_t place = current ? reserve_in(current, wanted) : 0) return place;
  return wanted.units <= kRoom / kWord ? reserve_in_new_page(wanted) : reserve_pages(wanted.units);
}

uint64_t SharedLives::reserve_in(uint64_t number, Wanted wanted) noexcept {
  if (wanted.units > kRoom / kWord || number >= kLargest / kPage || !map_up_to((number + 1) * kPage)) return 0;
  std::atomic_ref shared(*reinterpret_cast<uint64_t*>(base() + number * kPage));
  // Adding nothing is a write: one page fault makes the page writable, where a load first would cost a second one.
  for (uint64_t now = shared.fetch_add(0, std::memory_order_acquire);;) {
    auto there = __builtin_bit_cast(Content, now);
    Content more = there;
    more.records = static_cast<uint16_t>(there.records + wanted.records);
    more.units = static_cast<uint16_t>(there.units + wanted.units);
    if (there.tag != schema::kLivesPage || there.records > schema::kLivesInPage || there.units > kRoom / kWord || !fits(more)) return 0;
    if (shared.compare_exchange_weak(now, word(more), std::memory_order_acq_rel)) return number * kPage + place_in_page(more, wanted);
  }
}

uint64_t SharedLives::reserve_in_new_page(Wanted wanted) noexcept {
  Content content{.tag = schema::kLivesPage, .records = wanted.records, .units = static_cast<uint16_t>(wanted.units)};
  uint64_t number = new_pages(1, word(content));
  if (!number) return 0;
  std::atomic_ref(reinterpret_cast<Header*>(base())->current).store(number, std::memory_order_release);
  return number * kPage + place_in_page(content, wanted);
}

// For a text that is longer than a page.
uint64_t SharedLives::reserve_pages(uint32_t units) noexcept {
  uint64_t pages = (sizeof(Content) + units * kWord + kPage - 1) / kPage;
  uint64_t number = new_pages(pages, pages << 32 | schema::kLivesLongText);
  return number ? number * kPage + sizeof(Content) : 0;
}

uint64_t SharedLives::new_pages(uint64_t count, uint64_t content) noexcept {
  uint64_t number = 1 + std::atomic_ref(reinterpret_cast<Header*>(base())->file.next).fetch_add(count, std::memory_order_relaxed);
  if (number > kLargest / kPage - count || !map_up_to((number + count) * kPage)) return 0;
  std::atomic_ref(*reinterpret_cast<uint64_t*>(base() + number * kPage)).store(content, std::memory_order_release);
  return number;
}

namespace {

// Processes that do this at the same time write the same values.
void write_header(char* file) noexcept {
  auto* header = reinterpret_cast<schema::SpoolHeader*>(file);
  if (std::atomic_ref(header->magic).load(std::memory_order_acquire) == schema::kSpoolMagic) return;
  header->format = schema::kFormat;
  header->table = kLivesTable;
  header->record_bytes = sizeof(Life);
  std::atomic_ref(header->magic).store(schema::kSpoolMagic, std::memory_order_release);
}

}  // namespace

char* SharedLives::base() const noexcept {
  uint32_t count = count_.load(std::memory_order_acquire);
  return count ? regions_[count - 1].base : nullptr;
}

bool SharedLives::reaches(uint64_t end) const noexcept {
  uint32_t count = count_.load(std::memory_order_acquire);
  return count && end <= regions_[count - 1].bytes && end <= file_bytes_.load(std::memory_order_acquire);
}

bool SharedLives::map_up_to(uint64_t end) noexcept {
  if (reaches(end)) [[likely]]
    return true;
  // Another thread, or the code that this handler interrupted, is mapping it: the process makes a folder of its own instead.
  if (busy_.exchange(true, std::memory_order_acquire)) return false;
  bool reached = reaches(end) || reach_out(end);
  busy_.store(false, std::memory_order_release);
  return reached;
}

// Earlier mappings stay: their data may still be read and written.
bool SharedLives::reach_out(uint64_t end) noexcept {
  uint32_t count = count_.load(std::memory_order_relaxed);
  uint64_t bytes = kSmallest;
  while (bytes < end) bytes *= 2;
  bool is_mapped = count && end <= regions_[count - 1].bytes;
  if (bytes > kLargest || (!is_mapped && count == kRegions)) return false;
  Mapping mapping{.end = bytes, .extent = is_mapped ? Mapping::Extent::NONE : Mapping::Extent::WITH_ROOM};
  auto run = [](void* pointer) noexcept { static_cast<Mapping*>(pointer)->make(); };
  run(&mapping);
  if (mapping.result == -EMFILE) run_apart(run, &mapping);
  // If this process may not open the file, or it cannot grow, we go on without it.
  if (sys::failed(mapping.result)) return false;
  if (!count) write_header(reinterpret_cast<char*>(mapping.result));
  if (!is_mapped) {
    AIFLAME_ASSERT(count < kRegions && mapping.mapped >= mapping.file_bytes);
    regions_[count] = {reinterpret_cast<char*>(mapping.result), mapping.mapped};
    count_.store(count + 1, std::memory_order_release);
  }
  file_bytes_.store(mapping.file_bytes, std::memory_order_release);
  return true;
}

bool SharedLives::overlaps(uint64_t address, uint64_t bytes) const noexcept {
  uint32_t count = count_.load(std::memory_order_acquire);
  return std::ranges::any_of(std::span(regions_, count),
                             [&](const Region& region) { return places::range(region.base, region.bytes).overlaps(address, bytes); });
}

const SharedLives::Region* SharedLives::region_around(uint64_t address) const noexcept {
  uint32_t count = count_.load(std::memory_order_acquire);
  for (uint32_t at = 0; at < count; at++)
    if (places::range(regions_[at].base, regions_[at].bytes).holds(address)) return &regions_[at];
  return nullptr;
}

namespace {

// If the program has mapped memory there meanwhile, even in part, that memory is the program's.
bool map_at(char* base, uint64_t bytes) noexcept {
  Mapping mapping{.end = 0, .extent = Mapping::Extent::AS_GIVEN, .mapped = bytes, .address = reinterpret_cast<uint64_t>(base)};
  mapping.make();
  return mapping.result == reinterpret_cast<long>(base);
}

}  // namespace

bool SharedLives::map_again(uint64_t address) const noexcept {
  const Region* region = region_around(address);
  if (!region) return false;
  long allowed = sys::call(SYS_mprotect, reinterpret_cast<long>(region->base), static_cast<long>(region->bytes), PROT_READ | PROT_WRITE);
  return !sys::failed(allowed) || map_at(region->base, region->bytes);
}

void SharedLives::map_missing() noexcept {
  uint32_t count = count_.load(std::memory_order_acquire);
  for (Region& region : std::span(regions_, count)) {
    if (places::is_mapped(places::range(region.base, region.bytes)) || map_at(region.base, region.bytes)) continue;
    // Something else lies there now.
    Mapping elsewhere{.end = 0, .extent = Mapping::Extent::AS_GIVEN, .mapped = region.bytes, .mend = places::Mend::NO};
    elsewhere.make();
    if (sys::failed(elsewhere.result)) continue;
    std::atomic_ref(region.base).store(reinterpret_cast<char*>(elsewhere.result), std::memory_order_release);
  }
}

void SharedLives::abandon() noexcept {
  uint32_t count = count_.exchange(0);
  file_bytes_.store(0);
  for (const Region& region : std::span(regions_, count)) sys::unmap_memory(region.base, region.bytes);
}

void SharedLives::leave_behind() noexcept {
  count_.store(0);
  file_bytes_.store(0);
}

}  // namespace aiflame::spool
