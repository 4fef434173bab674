#include "hooks/shared/intel_code.hpp"

#include "records/device_code.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <elf.h>
#include <algorithm>
#include <cstring>

namespace aiflame::intel_code {

Span span(const uint8_t* elf, size_t size) noexcept {
  Elf64_Ehdr header;
  if (size < sizeof header) return {};
  memcpy(&header, elf, sizeof header);
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr)) return {};
  uint64_t low = ~0ull, high = 0;
  for (uint64_t at = 0; at < header.e_shnum; at++) {
    uint64_t place = header.e_shoff + at * sizeof(Elf64_Shdr);
    if (place > size || size - place < sizeof(Elf64_Shdr)) break;
    Elf64_Shdr section;
    memcpy(&section, elf + place, sizeof section);
    if (!(section.sh_flags & SHF_EXECINSTR) || !section.sh_addr || !section.sh_size) continue;
    low = std::min(low, section.sh_addr);
    high = std::max(high, section.sh_addr + section.sh_size);
  }
  return low < high ? Span{low, high - low} : Span{};
}

Load loaded(uint32_t device, uint64_t time_ns, const uint8_t* elf, size_t size) noexcept {
  if (!control::recording()) return {};
  Span at = span(elf, size);
  if (!at.bytes) return {};
  uint64_t crc = device_code::checksum(elf, size);
  device_code::keep(crc, elf, size, "Intel GPU: device code could not be kept: its kernels have no source lines");
  uint32_t row = spool::append(schema::CodeLoad{.crc = crc, .device = device, .address = at.address, .bytes = at.bytes, .time_ns = time_ns});
  return {.row = row, .era = spool::era(), .crc = crc};
}

void unloaded(const Load& load, uint64_t time_ns) noexcept {
  if (load.row && load.era == spool::era() && control::recording()) spool::append(schema::CodeUnload{.load = load.row, .time_ns = time_ns});
}

}  // namespace aiflame::intel_code
