#include "mpi/weak_names.hpp"

#include "mpi/entries.hpp"
#include "mpi/runtime.hpp"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <cstdlib>

namespace aiflame::mpi {

namespace {

constexpr uint64_t kPage = 4096;

// A module as it lies in memory, with its references by name.
class Module {
 public:
  explicit Module(const dl_phdr_info& info) noexcept : info_(info) {
    const ElfW(Dyn)* entry = nullptr;
    for (const ElfW(Phdr) & segment : segments())
      if (segment.p_type == PT_DYNAMIC) entry = reinterpret_cast<const ElfW(Dyn)*>(info_.dlpi_addr + segment.p_vaddr);
    for (; entry && entry->d_tag; entry++) {
      uint64_t value = entry->d_un.d_ptr;
      if (entry->d_tag == DT_SYMTAB) symbols_ = reinterpret_cast<const ElfW(Sym)*>(value);
      if (entry->d_tag == DT_STRTAB) strings_ = reinterpret_cast<const char*>(value);
      if (entry->d_tag == DT_RELA) references_ = reinterpret_cast<const ElfW(Rela)*>(value);
      if (entry->d_tag == DT_RELASZ) count_ = value / sizeof(ElfW(Rela));
    }
    // The dynamic linker has relocated these pointers in place, but not in the vdso.
    if (reinterpret_cast<uint64_t>(symbols_) < info_.dlpi_addr || !strings_ || !references_) count_ = 0;
  }

  void withdraw() const noexcept {
    for (size_t at = 0; at < count_; at++) {
      const ElfW(Rela) & reference = references_[at];
      uint64_t type = ELF64_R_TYPE(reference.r_info);
      if (type != R_X86_64_GLOB_DAT && type != R_X86_64_64) continue;
      const ElfW(Sym) & symbol = symbols_[ELF64_R_SYM(reference.r_info)];
      if (ELF64_ST_BIND(symbol.st_info) != STB_WEAK || symbol.st_shndx != SHN_UNDEF) continue;
      auto* slot = reinterpret_cast<uint64_t*>(info_.dlpi_addr + reference.r_offset);
      bool ours = *slot >= reinterpret_cast<uint64_t>(aiflame_mpi_entries) && *slot < reinterpret_cast<uint64_t>(aiflame_mpi_entries_end);
      if (ours && !without_us(strings_ + symbol.st_name, code())) clear(slot);
    }
  }

  bool has(uint64_t address) const noexcept {
    for (const ElfW(Phdr) & segment : segments())
      if (segment.p_type == PT_LOAD && address - info_.dlpi_addr - segment.p_vaddr < segment.p_memsz) return true;
    return false;
  }

 private:
  std::span<const ElfW(Phdr)> segments() const noexcept { return {info_.dlpi_phdr, info_.dlpi_phnum}; }

  uint64_t code() const noexcept {
    for (const ElfW(Phdr) & segment : segments())
      if (segment.p_type == PT_LOAD && segment.p_flags & PF_X) return info_.dlpi_addr + segment.p_vaddr;
    return info_.dlpi_addr;
  }

  // As the dynamic linker protects: whole pages only.
  bool sealed(uint64_t address) const noexcept {
    for (const ElfW(Phdr) & segment : segments()) {
      uint64_t low = info_.dlpi_addr + segment.p_vaddr;
      if (segment.p_type == PT_GNU_RELRO && address >= low && address < ((low + segment.p_memsz) & ~(kPage - 1))) return true;
    }
    return false;
  }

  void clear(uint64_t* slot) const noexcept {
    auto address = reinterpret_cast<uint64_t>(slot);
    auto* page = reinterpret_cast<void*>(address & ~(kPage - 1));
    if (sealed(address) && mprotect(page, kPage, PROT_READ | PROT_WRITE) != 0) return;
    __atomic_store_n(slot, 0, __ATOMIC_RELEASE);
    if (sealed(address)) mprotect(page, kPage, PROT_READ);
  }

  dl_phdr_info info_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const ElfW(Rela) * references_ = nullptr;
  size_t count_ = 0;
};

// Modules are gathered first: their list is locked while it is walked, and to look names up takes another lock.
struct Modules {
  static constexpr size_t kMost = 1024;
  dl_phdr_info infos[kMost];
  size_t count;
  uint64_t wanted;  // 0: all
};
int add(dl_phdr_info* info, size_t, void* context) noexcept {
  auto* modules = static_cast<Modules*>(context);
  if (modules->count < Modules::kMost && (!modules->wanted || Module(*info).has(modules->wanted))) modules->infos[modules->count++] = *info;
  return 0;
}
void withdraw(uint64_t wanted) noexcept {
  auto* modules = static_cast<Modules*>(calloc(1, sizeof(Modules)));
  if (!modules) return;
  modules->wanted = wanted;
  dl_iterate_phdr(add, modules);
  for (size_t at = 0; at < modules->count; at++) Module(modules->infos[at]).withdraw();
  free(modules);
}

// Withdraws the names of libraries that were loaded when the program began.
__attribute__((constructor)) void withdraw_from_all() noexcept { withdraw(0); }

}  // namespace

void withdraw_from(uint64_t caller) noexcept { withdraw(caller); }

}  // namespace aiflame::mpi
