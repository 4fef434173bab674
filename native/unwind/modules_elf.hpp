// Our own view of an ELF file: where it is loaded, its build-id, and its unwind tables in memory that the program cannot unmap under us. One writer
// at a time makes views.
#pragma once
#include "unwind/modules.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace aiflame::modules {

struct ElfView {
  struct Load {
    uint64_t offset, vaddr, bytes;
  };
  Load code[8];  // executable segments
  uint32_t code_count;
  uint32_t build_id_bytes;
  uint8_t build_id[64];
  const IndexEntry* index;
  uint64_t index_vaddr, tables_vaddr, tables_bytes;
  const uint8_t* tables;
  uint32_t index_count;

  // The ELF vaddr of a place in the file; false if no executable segment contains it.
  bool vaddr_of(uint64_t offset, uint64_t* vaddr) const noexcept;
};

// Makes a view from the open file `fd`: tables are mapped.
bool view_file(long fd, ElfView* out) noexcept;

// Makes a view from memory where the file's first bytes are mapped: tables are copied, since the file cannot be opened and the memory may be
// unmapped.
bool view_memory(uint64_t image, ElfView* out) noexcept;

// Makes a view of the kernel's vdso: it stays where it is, so nothing is copied.
bool view_vdso(uint64_t image, ElfView* out) noexcept;

// Reads bytes of this process, even if they may be unmapped; returns how many could be read.
size_t copy_memory(uint64_t address, void* out, size_t bytes) noexcept;

}  // namespace aiflame::modules
