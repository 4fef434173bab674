#include "unwind/modules_elf.hpp"

#include "base/large.hpp"
#include "base/safe_load.hpp"
#include "base/sys.hpp"
#include "unwind/eh_frame.hpp"

#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <algorithm>
#include <cstring>

namespace aiflame::modules {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kMaxHeaders = 64;
constexpr size_t kMaxFunctions = 1 << 22;

// The source of the file's bytes. Segments are given by their program header; the bytes are never unmapped.
class Source {
 public:
  virtual size_t read(uint64_t offset, void* out, size_t bytes) const noexcept = 0;
  virtual const uint8_t* keep(const Elf64_Phdr& segment) const noexcept = 0;
  virtual bool is_file() const noexcept { return false; }

 protected:
  ~Source() = default;
};

class FileSource final : public Source {
 public:
  explicit FileSource(long fd) noexcept : fd_(fd) {}
  size_t read(uint64_t offset, void* out, size_t bytes) const noexcept override {
    long got = sys::call(SYS_pread64, fd_, reinterpret_cast<long>(out), static_cast<long>(bytes), static_cast<long>(offset));
    return got > 0 ? static_cast<size_t>(got) : 0;
  }
  const uint8_t* keep(const Elf64_Phdr& segment) const noexcept override {
    struct stat status;
    if (sys::failed(sys::call(SYS_fstat, fd_, reinterpret_cast<long>(&status)))) return nullptr;
    auto size = static_cast<uint64_t>(status.st_size);
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset) return nullptr;  // cut off: reading it would be a SIGBUS
    uint64_t slack = segment.p_offset % kPage;
    long result =
        sys::call(SYS_mmap, 0, static_cast<long>(segment.p_filesz + slack), PROT_READ, MAP_PRIVATE, fd_, static_cast<long>(segment.p_offset - slack));
    return sys::failed(result) ? nullptr : reinterpret_cast<const uint8_t*>(result) + slack;
  }
  bool is_file() const noexcept override { return true; }

 private:
  long fd_;
};

// An image whose headers are mapped at its first byte, as the dynamic linker leaves it.
class MemorySource : public Source {
 public:
  explicit MemorySource(uint64_t image) noexcept : image_(image) {}
  size_t read(uint64_t offset, void* out, size_t bytes) const noexcept override { return copy_memory(image_ + offset, out, bytes); }
  const uint8_t* keep(const Elf64_Phdr& segment) const noexcept override {
    auto* copy = static_cast<uint8_t*>(sys::map_memory(segment.p_filesz));
    if (copy && copy_memory(image_ - first_vaddr + segment.p_vaddr, copy, segment.p_filesz) == segment.p_filesz) return copy;
    sys::unmap_memory(copy, segment.p_filesz);
    return nullptr;
  }
  uint64_t first_vaddr = 0;

 protected:
  uint64_t image_;
};

class VdsoSource final : public MemorySource {
 public:
  using MemorySource::MemorySource;
  const uint8_t* keep(const Elf64_Phdr& segment) const noexcept override {
    return reinterpret_cast<const uint8_t*>(image_ - first_vaddr + segment.p_vaddr);
  }
};

struct Headers {
  Elf64_Ehdr file;
  Elf64_Phdr segments[kMaxHeaders];
  uint32_t count;
};

// A tick may run on a stack of a few KB, so large buffers are static: there is one writer at a time.
AIFLAME_LARGE Headers headers_now;
AIFLAME_LARGE uint8_t notes_now[1024];

bool read_headers(const Source& source, Headers* out) noexcept {
  if (source.read(0, &out->file, sizeof out->file) != sizeof out->file) return false;
  if (memcmp(out->file.e_ident, ELFMAG, SELFMAG) != 0 || out->file.e_ident[EI_CLASS] != ELFCLASS64 || out->file.e_machine != EM_X86_64) return false;
  out->count = std::min<uint32_t>(out->file.e_phnum, kMaxHeaders);
  size_t bytes = out->count * sizeof(Elf64_Phdr);
  return out->file.e_phentsize == sizeof(Elf64_Phdr) && source.read(out->file.e_phoff, out->segments, bytes) == bytes;
}

const Elf64_Phdr* load_with(const Headers& headers, uint64_t vaddr) noexcept {
  for (uint32_t at = 0; at < headers.count; at++) {
    const Elf64_Phdr& segment = headers.segments[at];
    if (segment.p_type == PT_LOAD && vaddr >= segment.p_vaddr && vaddr - segment.p_vaddr < segment.p_filesz) return &segment;
  }
  return nullptr;
}

// Notes are (name size, data size, type), the name and the data, each padded to 4.
void read_build_id(const Source& source, const Elf64_Phdr& notes, ElfView* out) noexcept {
  const uint8_t* bytes = notes_now;
  size_t length = source.read(notes.p_offset, notes_now, std::min<uint64_t>(notes.p_filesz, sizeof notes_now));
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= length;) {
    Elf64_Nhdr note;
    memcpy(&note, bytes + at, sizeof note);
    size_t name = at + sizeof note, data = name + ((size_t{note.n_namesz} + 3) & ~size_t{3}),
           next = data + ((size_t{note.n_descsz} + 3) & ~size_t{3});
    if (next > length || next <= at) return;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(bytes + name, "GNU", 4) == 0 && note.n_descsz <= sizeof out->build_id) {
      memcpy(out->build_id, bytes + data, note.n_descsz);
      out->build_id_bytes = note.n_descsz;
      return;
    }
    at = next;
  }
}

bool keep_segment(const Source& source, const Elf64_Phdr& segment, ElfView* out) noexcept {
  const uint8_t* bytes = source.keep(segment);
  if (!bytes) return false;
  out->tables = bytes;
  out->tables_vaddr = segment.p_vaddr;
  out->tables_bytes = segment.p_filesz;
  return true;
}

// The search table that every linker writes: version 1, count as udata4, pairs as datarel sdata4.
bool use_search_table(uint64_t header_vaddr, ElfView* out) noexcept {
  uint64_t offset = header_vaddr - out->tables_vaddr, left = out->tables_bytes - offset;
  const uint8_t* header = out->tables + offset;
  if (left < 12 || header[0] != 1 || header[2] != 0x03 || header[3] != 0x3b || (header[1] != 0xff && (header[1] & 7) == 1)) return false;
  uint64_t pointer_bytes = (header[1] & 7) == 2 ? 2 : (header[1] & 7) == 3 ? 4 : header[1] == 0xff ? 0 : 8;
  uint32_t count;
  uint64_t table = 4 + pointer_bytes + 4;
  memcpy(&count, header + 4 + pointer_bytes, 4);
  if (left < table || count == 0 || count > (left - table) / sizeof(IndexEntry)) return false;
  out->index = reinterpret_cast<const IndexEntry*>(header + table);
  out->index_count = count;
  out->index_vaddr = header_vaddr;
  return true;
}

// A file without a search table: its `.eh_frame` is found by name, and a table made once.
void build_index(const Source& source, const Headers& headers, ElfView* out) noexcept {
  if (!source.is_file() || headers.file.e_shentsize != sizeof(Elf64_Shdr)) return;
  auto header_at = [&](uint32_t number, Elf64_Shdr* section) {
    return source.read(headers.file.e_shoff + uint64_t{number} * sizeof *section, section, sizeof *section) == sizeof *section;
  };
  Elf64_Shdr names, section;
  if (!header_at(headers.file.e_shstrndx, &names)) return;
  for (uint32_t number = 1; number < headers.file.e_shnum; number++) {
    char name[10] = {};
    if (!header_at(number, &section)) return;
    if (!(section.sh_flags & SHF_ALLOC) || section.sh_type == SHT_NOBITS) continue;
    source.read(names.sh_offset + section.sh_name, name, sizeof name);
    if (memcmp(name, ".eh_frame", sizeof name) == 0) break;
    if (number + 1 == headers.file.e_shnum) return;
  }
  const Elf64_Phdr* segment = load_with(headers, section.sh_addr);
  if (!segment || !keep_segment(source, *segment, out)) return;
  uint64_t offset = section.sh_addr - out->tables_vaddr, bytes = std::min(section.sh_size, out->tables_bytes - offset);
  size_t count = eh_frame::index_section(out->tables + offset, section.sh_addr, bytes, nullptr, 0);
  if (count == 0 || count > kMaxFunctions) return;
  auto* index = static_cast<IndexEntry*>(sys::map_memory(count * sizeof(IndexEntry)));
  if (!index) return;
  eh_frame::index_section(out->tables + offset, section.sh_addr, bytes, index, count);
  out->index = index;
  out->index_count = static_cast<uint32_t>(count);
  out->index_vaddr = section.sh_addr;
}

bool view(const Source& source, const Headers& headers, ElfView* out) noexcept {
  const Elf64_Phdr* unwind = nullptr;
  for (uint32_t at = 0; at < headers.count; at++) {
    const Elf64_Phdr& segment = headers.segments[at];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && out->code_count < std::size(out->code))
      out->code[out->code_count++] = {segment.p_offset, segment.p_vaddr, segment.p_filesz};
    if (segment.p_type == PT_NOTE && !out->build_id_bytes) read_build_id(source, segment, out);
    if (segment.p_type == PT_GNU_EH_FRAME) unwind = &segment;
  }
  const Elf64_Phdr* tables = unwind ? load_with(headers, unwind->p_vaddr) : nullptr;
  if (!tables || !keep_segment(source, *tables, out) || !use_search_table(unwind->p_vaddr, out)) build_index(source, headers, out);
  return out->code_count > 0;
}

bool view_image(MemorySource& source, ElfView* out) noexcept {
  Headers& headers = headers_now;
  *out = {};
  if (!read_headers(source, &headers)) return false;
  for (uint32_t at = headers.count; at-- > 0;)
    if (headers.segments[at].p_type == PT_LOAD) source.first_vaddr = headers.segments[at].p_vaddr & ~(kPage - 1);
  return view(source, headers, out);
}

}  // namespace

bool ElfView::vaddr_of(uint64_t offset, uint64_t* vaddr) const noexcept {
  for (uint32_t at = 0; at < code_count; at++) {
    uint64_t start = code[at].offset & ~(kPage - 1);
    if (offset < start || offset >= code[at].offset + code[at].bytes) continue;
    *vaddr = code[at].vaddr + (offset - code[at].offset);
    return true;
  }
  return false;
}

bool view_file(long fd, ElfView* out) noexcept {
  FileSource source(fd);
  *out = {};
  return read_headers(source, &headers_now) && view(source, headers_now, out);
}

bool view_memory(uint64_t image, ElfView* out) noexcept {
  MemorySource source(image);
  return view_image(source, out);
}

bool view_vdso(uint64_t image, ElfView* out) noexcept {
  VdsoSource source(image);
  return view_image(source, out);
}

size_t copy_memory(uint64_t address, void* out, size_t bytes) noexcept {
  iovec to{out, bytes}, from{reinterpret_cast<void*>(address), bytes};
  long got = sys::call(SYS_process_vm_readv, static_cast<long>(sys::process_id()), reinterpret_cast<long>(&to), 1, reinterpret_cast<long>(&from), 1);
  if (got >= 0) return static_cast<size_t>(got);
  if (got == -14 /* EFAULT */) return 0;
  // A sandbox forbids the call.
  auto* target = static_cast<uint8_t*>(out);
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t word = safe_load(address + at);
    memcpy(target + at, &word, std::min<size_t>(8, bytes - at));
  }
  return bytes;
}

}  // namespace aiflame::modules
