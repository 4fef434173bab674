#include "memory/real.hpp"

#include "base/next_definition.hpp"
#include "base/own_library.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <cstring>
#include <string_view>

namespace aiflame::memory {

namespace {

using next_definition::find_among;

void resolve() noexcept;

// The members of `real` until then. The dynamic linker itself calls our functions from the moment when it has relocated all libraries.
void* first_malloc(size_t bytes) noexcept { return resolve(), real.malloc(bytes); }
void* first_calloc(size_t count, size_t bytes) noexcept { return resolve(), real.calloc(count, bytes); }
void* first_realloc(void* block, size_t bytes) noexcept { return resolve(), real.realloc(block, bytes); }
void first_free(void* block) noexcept { resolve(), real.free(block); }
int first_posix_memalign(void** block, size_t alignment, size_t bytes) noexcept { return resolve(), real.posix_memalign(block, alignment, bytes); }
void* first_aligned_alloc(size_t alignment, size_t bytes) noexcept { return resolve(), real.aligned_alloc(alignment, bytes); }
void* first_memalign(size_t alignment, size_t bytes) noexcept { return resolve(), real.memalign(alignment, bytes); }
void* first_valloc(size_t bytes) noexcept { return resolve(), real.valloc(bytes); }
void* first_pvalloc(size_t bytes) noexcept { return resolve(), real.pvalloc(bytes); }
void* first_mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  return resolve(), real.mmap(address, bytes, protection, flags, file, offset);
}
int first_munmap(void* address, size_t bytes) noexcept { return resolve(), real.munmap(address, bytes); }
void* first_mremap(void* address, size_t bytes, size_t new_bytes, int flags, void* new_address) noexcept {
  return resolve(), real.mremap(address, bytes, new_bytes, flags, new_address);
}

uint64_t code_low = 0, code_high = 0;
const link_map* allocator = nullptr;

bool is_libc(const link_map& map) noexcept { return map.l_name && std::string_view(map.l_name).ends_with("/libc.so.6"); }

// The mapped ELF header says where the segments are.
void learn_code(const link_map& map) noexcept {
  auto* header = reinterpret_cast<const Elf64_Ehdr*>(map.l_addr);
  if (!map.l_addr || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  auto* segments = reinterpret_cast<const Elf64_Phdr*>(map.l_addr + header->e_phoff);
  for (uint32_t at = 0; at < header->e_phnum; at++) {
    if (segments[at].p_type != PT_LOAD || !(segments[at].p_flags & PF_X)) continue;
    code_low = map.l_addr + segments[at].p_vaddr;
    code_high = code_low + segments[at].p_memsz;
  }
}

template <class Function>
void find(const link_map* own, const char* name, Function** function) noexcept {
  void* found = own ? find_among(own->l_next, nullptr, name).address : nullptr;
  // A library of the old kind, without a table of hashes: nothing that dlsym() allocates comes here, since libc has such a table.
  if (!found) found = dlsym(RTLD_NEXT, name);
  if (found) *function = reinterpret_cast<Function*>(found);
}

// Two threads may do this at once: they find the same. Another thread may call while only some are found: each looks up by itself.
void resolve() noexcept {
  const link_map* own = own_library();
  Real found = real;
#define FIND(name) find(own, #name, &found.name)
  FIND(malloc);
  FIND(calloc);
  FIND(realloc);
  FIND(free);
  FIND(posix_memalign);
  FIND(aligned_alloc);
  FIND(memalign);
  FIND(valloc);
  FIND(pvalloc);
  FIND(mmap);
  FIND(munmap);
  FIND(mremap);
#undef FIND
  if (own) allocator = find_among(own->l_next, nullptr, "malloc").library;
  if (allocator && !is_libc(*allocator)) learn_code(*allocator);
  real = found;
}

}  // namespace

constinit Real real{first_malloc,   first_calloc, first_realloc, first_free, first_posix_memalign, first_aligned_alloc,
                    first_memalign, first_valloc, first_pvalloc, first_mmap, first_munmap,         first_mremap};

bool is_of_allocator(uint64_t address) noexcept { return address >= code_low && address < code_high; }

bool is_passed_over() noexcept {
  const link_map* own = own_library();
  const link_map* first = own;
  while (first && first->l_prev) first = first->l_prev;
  return find_among(first, own, "malloc").address != nullptr;
}

bool has_own_new() noexcept {
  const link_map* own = own_library();
  if (!own || !allocator || is_libc(*allocator)) return false;
  return find_among(own->l_next, nullptr, "_Znwm").library == allocator;
}

}  // namespace aiflame::memory
