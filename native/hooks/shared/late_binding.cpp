#include "hooks/shared/late_binding.hpp"

#include "base/sys.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <atomic>
#include <cstring>

namespace aiflame::hooks {

namespace {

struct Tables {
  const ElfW(Sym) * symbols;
  const char* strings;
  const ElfW(Rela) * lists[2];
  size_t bytes[2];
};

// The dynamic linker has relocated these pointers in place, but not in every object (the vdso).
bool read_tables(const dl_phdr_info& info, Tables* tables) noexcept {
  *tables = {};
  for (int at = 0; at < info.dlpi_phnum; at++) {
    if (info.dlpi_phdr[at].p_type != PT_DYNAMIC) continue;
    for (auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[at].p_vaddr); entry->d_tag; entry++) {
      uint64_t value = entry->d_un.d_ptr;
      if (entry->d_tag == DT_SYMTAB) tables->symbols = reinterpret_cast<const ElfW(Sym)*>(value);
      if (entry->d_tag == DT_STRTAB) tables->strings = reinterpret_cast<const char*>(value);
      if (entry->d_tag == DT_JMPREL) tables->lists[0] = reinterpret_cast<const ElfW(Rela)*>(value);
      if (entry->d_tag == DT_RELA) tables->lists[1] = reinterpret_cast<const ElfW(Rela)*>(value);
      if (entry->d_tag == DT_PLTRELSZ) tables->bytes[0] = value;
      if (entry->d_tag == DT_RELASZ) tables->bytes[1] = value;
    }
  }
  return reinterpret_cast<uint64_t>(tables->symbols) >= info.dlpi_addr && tables->symbols && tables->strings;
}

// As the dynamic linker protects: whole pages only, so that a last part of a page stays writable for the data behind it.
bool read_only(const dl_phdr_info& info, uint64_t address) noexcept {
  for (int at = 0; at < info.dlpi_phnum; at++) {
    const ElfW(Phdr) & segment = info.dlpi_phdr[at];
    uint64_t low = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_RELRO && address >= low && address < ((low + segment.p_memsz) & ~4095ull)) return true;
  }
  return false;
}

void point(const dl_phdr_info& info, uint64_t slot, void* target) noexcept {
  long page = static_cast<long>(slot & ~4095ull);
  bool sealed = read_only(info, slot);
  if (sealed && sys::failed(sys::call(SYS_mprotect, page, 4096, PROT_READ | PROT_WRITE))) return;
  std::atomic_ref(*reinterpret_cast<void**>(slot)).store(target, std::memory_order_release);
  if (sealed) sys::call(SYS_mprotect, page, 4096, PROT_READ);
}

struct Wanted {
  const char* beginning;
  void* (*ours)(const char* name) noexcept;                         // of calls
  void* (*ours_of_pointer)(const char* name, void* real) noexcept;  // of pointers
  const void* own_base;

  bool is_of(uint64_t type) const noexcept { return ours ? type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT : type == R_X86_64_64; }
  void* target(const char* name, uint64_t slot) const noexcept {
    return ours ? ours(name) : ours_of_pointer(name, std::atomic_ref(*reinterpret_cast<void**>(slot)).load(std::memory_order_relaxed));
  }
};

int patch(dl_phdr_info* info, size_t, void* data) noexcept {
  const auto& wanted = *static_cast<const Wanted*>(data);
  Tables tables;
  if (reinterpret_cast<const void*>(info->dlpi_addr) == wanted.own_base || !read_tables(*info, &tables)) return 0;
  size_t length = strlen(wanted.beginning);
  for (int list = 0; list < 2; list++) {
    for (size_t at = 0; tables.lists[list] && at < tables.bytes[list] / sizeof(ElfW(Rela)); at++) {
      const ElfW(Rela) & entry = tables.lists[list][at];
      if (!wanted.is_of(ELF64_R_TYPE(entry.r_info))) continue;
      const char* name = tables.strings + tables.symbols[ELF64_R_SYM(entry.r_info)].st_name;
      if (strncmp(name, wanted.beginning, length) != 0) continue;
      uint64_t slot = info->dlpi_addr + entry.r_offset;
      if (void* target = wanted.target(name, slot)) point(*info, slot, target);
    }
  }
  return 0;
}

const void* own_base() noexcept {
  Dl_info own{};
  dladdr(reinterpret_cast<void*>(&own_base), &own);
  return own.dli_fbase;
}

}  // namespace

void lead_callers(const char* beginning, void* (*ours)(const char* name) noexcept) noexcept {
  Wanted wanted{beginning, ours, nullptr, own_base()};
  dl_iterate_phdr(patch, &wanted);
}

void lead_pointers(const char* beginning, void* (*ours)(const char* name, void* real) noexcept) noexcept {
  Wanted wanted{beginning, nullptr, ours, own_base()};
  dl_iterate_phdr(patch, &wanted);
}

}  // namespace aiflame::hooks
