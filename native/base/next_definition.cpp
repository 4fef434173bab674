#include "base/next_definition.hpp"

#include "base/own_library.hpp"

#include <elf.h>
#include <link.h>
#include <atomic>
#include <cstring>
#include <string_view>

namespace aiflame::next_definition {

namespace {

// Libraries that were loaded with the program, in the order of their search; none of them goes away.
std::atomic<const link_map*> behind_us{nullptr};
const link_map* libc;
bool loading = false;

constexpr uint16_t kHidden = 0x8000, kIndex = 0x7fff, kFirstVersion = 2;

// The parts of a library's dynamic section that a look-up needs.
class Library {
 public:
  explicit Library(const link_map& map) noexcept : base_(map.l_addr) {
    for (const Elf64_Dyn* entry = map.l_ld; entry->d_tag != DT_NULL; entry++) {
      uint64_t address = entry->d_un.d_ptr;
      // glibc has relocated these offsets to addresses, except in memory that it may not write to.
      if (address < base_) address += base_;
      if (entry->d_tag == DT_SYMTAB) symbols_ = reinterpret_cast<const Elf64_Sym*>(address);
      if (entry->d_tag == DT_STRTAB) names_ = reinterpret_cast<const char*>(address);
      if (entry->d_tag == DT_GNU_HASH) table_ = reinterpret_cast<const uint32_t*>(address);
      if (entry->d_tag == DT_VERSYM) versions_ = reinterpret_cast<const uint16_t*>(address);
    }
  }

  // Also when it has only a table of the old kind.
  bool may_have(const char* name) const noexcept { return !table_ || find(name, hash_of(name)); }

  const Elf64_Sym* find(const char* name, uint32_t hash) const noexcept {
    if (!table_ || !symbols_ || !names_) return nullptr;
    uint32_t buckets = table_[0], first = table_[1], words = table_[2], shift = table_[3];
    if (!buckets || !words) return nullptr;
    auto* bloom = reinterpret_cast<const uint64_t*>(table_ + 4);
    uint64_t word = bloom[(hash / 64) % words];
    if (!(word >> (hash % 64) & word >> ((hash >> shift) % 64) & 1)) return nullptr;
    auto* bucket = reinterpret_cast<const uint32_t*>(bloom + words);
    const uint32_t* chain = bucket + buckets;
    uint32_t at = bucket[hash % buckets];
    if (at < first) return nullptr;
    for (;; at++) {
      uint32_t there = chain[at - first];
      if ((there | 1) == (hash | 1) && fits(at, name)) return &symbols_[at];
      if (there & 1) return nullptr;
    }
  }

  void* address_of(const Elf64_Sym& symbol) const noexcept { return reinterpret_cast<void*>(base_ + symbol.st_value); }

 private:
  // Accepts the default one of several versions.
  bool fits(uint32_t at, const char* name) const noexcept {
    const Elf64_Sym& symbol = symbols_[at];
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0 || strcmp(names_ + symbol.st_name, name) != 0) return false;
    return !versions_ || (versions_[at] & kIndex) < kFirstVersion || !(versions_[at] & kHidden);
  }

  uint64_t base_;
  const Elf64_Sym* symbols_ = nullptr;
  const char* names_ = nullptr;
  const uint32_t* table_ = nullptr;
  const uint16_t* versions_ = nullptr;
};

bool is_plain(const Elf64_Sym& symbol) noexcept { return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC || ELF64_ST_TYPE(symbol.st_info) == STT_NOTYPE; }

// glibc since 2.34: before, libdl and libpthread had functions of their own.
bool has_everything(const link_map& map) noexcept { return Library(map).find("pthread_create", hash_of("pthread_create")); }

}  // namespace

void learn() noexcept {
  const link_map* own = own_library();
  if (!own) return;
  // False when we were loaded later: libc then comes before us in the search.
  for (const link_map* map = own->l_next; map; map = map->l_next) {
    if (!std::string_view(map->l_name ? map->l_name : "").ends_with("/libc.so.6")) continue;
    if (!has_everything(*map)) return;
    libc = map;
    behind_us.store(own->l_next, std::memory_order_release);
    return;
  }
}

bool usable() noexcept { return behind_us.load(std::memory_order_acquire) != nullptr; }

void* find(const char* name, uint32_t hash) noexcept {
  for (const link_map* map = behind_us.load(std::memory_order_acquire); map; map = map->l_next) {
    Library library(*map);
    if (const Elf64_Sym* symbol = library.find(name, hash)) return is_plain(*symbol) ? library.address_of(*symbol) : nullptr;
    if (map == libc) return nullptr;
  }
  return nullptr;
}

Definition find_among(const link_map* first, const link_map* end, const char* name) noexcept {
  for (const link_map* map = first; map && map != end; map = map->l_next) {
    Library library(*map);
    const Elf64_Sym* symbol = library.find(name, hash_of(name));
    if (symbol && is_plain(*symbol)) return {library.address_of(*symbol), map};
  }
  return {nullptr, nullptr};
}

Loading::Loading() noexcept { loading = true; }
Loading::~Loading() { loading = false; }

bool is_absent(const char* name) noexcept {
  const link_map* map = behind_us.load(std::memory_order_acquire);
  if (!loading || !map) return false;
  while (map->l_prev) map = map->l_prev;
  for (; map; map = map->l_next)
    if (Library(*map).may_have(name)) return false;
  return true;
}

}  // namespace aiflame::next_definition
