#include "hooks/rocprofiler/code_objects.hpp"

#include "base/sys.hpp"
#include "records/device_code.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace aiflame::rocprofiler {

namespace {

struct Function {
  uint64_t start, end;
  const char* name;
  std::atomic<uint64_t> row;  // the number of the recording, and the row
};

struct Loaded {
  uint64_t id, crc;
  uint64_t to_elf;  // added to an offset of a program counter: the address in the file
  uint32_t count;
  Function* functions;  // by address; behind them the one of all other code
};

// By number, which counts from 1 in a process.
constexpr uint64_t kMostObjects = 1 << 16, kMostKernels = 1 << 18;
std::atomic<std::atomic<Loaded*>*> objects{nullptr};
std::atomic<std::atomic<Kernel*>*> kernels{nullptr};
std::atomic<uint32_t> recording{1};

template <class Entry>
std::atomic<Entry*>* entry(std::atomic<std::atomic<Entry*>*>& table, uint64_t number, uint64_t most, bool makes) noexcept {
  std::atomic<Entry*>* there = table.load(std::memory_order_acquire);
  if (!there && makes) {
    auto* made = static_cast<std::atomic<Entry*>*>(sys::map_memory(most * sizeof(std::atomic<Entry*>)));
    if (made && !table.compare_exchange_strong(there, made))
      sys::unmap_memory(made, most * sizeof(std::atomic<Entry*>));
    else
      there = made;
  }
  return there && number < most ? there + number : nullptr;
}

// The functions of an ELF file in memory: of its table of all symbols, or of those that a stripped file keeps. Every offset is checked.
class Symbols {
 public:
  Symbols(const char* bytes, size_t size) noexcept : bytes_(bytes), size_(size) {
    const auto* header = at<Elf64_Ehdr>(0);
    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) return;
    if (header->e_shentsize != sizeof(Elf64_Shdr)) return;
    for (uint32_t wanted : {SHT_SYMTAB, SHT_DYNSYM})
      for (uint32_t number = 0; number < header->e_shnum && !table_; number++) {
        const auto* section = at<Elf64_Shdr>(header->e_shoff + number * sizeof(Elf64_Shdr));
        if (!section || section->sh_type != wanted || section->sh_link >= header->e_shnum) continue;
        const auto* strings = at<Elf64_Shdr>(header->e_shoff + section->sh_link * sizeof(Elf64_Shdr));
        if (strings && has(section->sh_offset, section->sh_size) && has(strings->sh_offset, strings->sh_size)) {
          table_ = section;
          strings_ = strings;
        }
      }
  }

  uint32_t count() const noexcept { return table_ ? static_cast<uint32_t>(std::min<uint64_t>(table_->sh_size / sizeof(Elf64_Sym), 1 << 20)) : 0; }

  // Empty: the symbol is no function.
  std::string_view function(uint32_t number, Function* out) const noexcept {
    Elf64_Sym symbol;
    memcpy(&symbol, bytes_ + table_->sh_offset + number * sizeof symbol, sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !symbol.st_size || symbol.st_shndx == SHN_UNDEF || symbol.st_name >= strings_->sh_size)
      return {};
    const char* name = bytes_ + strings_->sh_offset + symbol.st_name;
    out->start = symbol.st_value;
    out->end = symbol.st_value + symbol.st_size;
    return {name, strnlen(name, strings_->sh_size - symbol.st_name)};
  }

 private:
  bool has(uint64_t offset, uint64_t size) const noexcept { return offset <= size_ && size <= size_ - offset; }
  template <class T>
  const T* at(uint64_t offset) const noexcept {
    return has(offset, sizeof(T)) && reinterpret_cast<uint64_t>(bytes_ + offset) % alignof(T) == 0 ? reinterpret_cast<const T*>(bytes_ + offset)
                                                                                                   : nullptr;
  }

  const char* bytes_;
  size_t size_;
  const Elf64_Shdr *table_ = nullptr, *strings_ = nullptr;
};

char* copy(std::string_view text) noexcept {
  auto* made = static_cast<char*>(malloc(text.size() + 1));
  if (!made) return nullptr;
  memcpy(made, text.data(), text.size());
  made[text.size()] = 0;
  return made;
}

void find_functions(Loaded& loaded, const char* bytes, size_t size) noexcept {
  Symbols symbols(bytes, size);
  uint32_t most = symbols.count(), filled = 0;
  auto* functions = static_cast<Function*>(calloc(most + 1, sizeof(Function)));
  if (!functions) return;
  for (uint32_t number = 0; number < most; number++)
    if (std::string_view name = symbols.function(number, &functions[filled]); !name.empty())
      if ((functions[filled].name = copy(name))) filled++;
  auto* order = static_cast<uint32_t*>(malloc((filled + 1) * sizeof(uint32_t)));
  auto* sorted = static_cast<Function*>(calloc(filled + 1, sizeof(Function)));
  if (order && sorted) {
    for (uint32_t at = 0; at < filled; at++) order[at] = at;
    std::sort(order, order + filled, [&](uint32_t one, uint32_t other) { return functions[one].start < functions[other].start; });
    for (uint32_t at = 0; at < filled; at++) {
      const Function& from = functions[order[at]];
      sorted[at].start = from.start;
      sorted[at].end = from.end;
      sorted[at].name = from.name;
    }
    sorted[filled].name = "";
    loaded.count = filled;
    loaded.functions = sorted;
  }
  free(order);
  free(functions);
}

// `file://PATH#offset=N&size=M`: the part of a file that is the code object.
uint64_t number_behind(const char* uri, const char* key) noexcept {
  const char* found = uri ? strstr(uri, key) : nullptr;
  return found ? strtoull(found + strlen(key), nullptr, 0) : 0;
}

}  // namespace

void on_code_object(const CodeObject& object) noexcept {
  std::atomic<Loaded*>* place = entry(objects, object.id, kMostObjects, true);
  if (!place || place->load(std::memory_order_relaxed)) return;
  auto* loaded = static_cast<Loaded*>(calloc(1, sizeof(Loaded)));
  if (!loaded) return;
  loaded->id = object.id;
  loaded->to_elf = object.load_base - static_cast<uint64_t>(object.load_delta);
  const char* bytes = nullptr;
  size_t size = 0;
  void* read = nullptr;
  if (object.storage == kInMemory) {
    bytes = reinterpret_cast<const char*>(object.memory);
    size = object.memory_bytes;
  } else if (object.storage == kInFile) {
    uint64_t offset = number_behind(object.uri, "offset=");
    size = number_behind(object.uri, "size=");
    if (struct stat status; !size && !sys::failed(sys::call(SYS_fstat, object.file, reinterpret_cast<long>(&status))))
      size = static_cast<size_t>(status.st_size);
    read = size && size < (1ull << 30) ? malloc(size) : nullptr;
    if (read && pread(object.file, read, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size)) bytes = static_cast<const char*>(read);
  }
  if (bytes && size) {
    loaded->crc = device_code::checksum(bytes, size);
    find_functions(*loaded, bytes, size);
    device_code::keep(loaded->crc, bytes, size, "AMD: device code could not be kept: its kernels have no source lines");
  } else {
    spool::note("AMD: device code could not be read: its kernels have no source lines");
  }
  free(read);
  place->store(loaded, std::memory_order_release);
}

void on_kernel_symbol(const KernelSymbol& symbol) noexcept {
  std::atomic<Kernel*>* place = entry(kernels, symbol.kernel, kMostKernels, true);
  if (!place || !symbol.name || place->load(std::memory_order_relaxed)) return;
  std::string_view name = symbol.name;
  if (name.ends_with(".kd")) name.remove_suffix(3);
  auto* made = static_cast<Kernel*>(calloc(1, sizeof(Kernel)));
  if (!made) return;
  *made = {.name = copy(name),
           .registers = symbol.vector_registers + symbol.accumulation_registers,
           .group_bytes = symbol.group_bytes,
           .private_bytes = symbol.private_bytes};
  place->store(made, std::memory_order_release);
}

Kernel kernel(uint64_t number) noexcept {
  std::atomic<Kernel*>* place = entry(kernels, number, kMostKernels, false);
  const Kernel* known = place ? place->load(std::memory_order_acquire) : nullptr;
  return known ? *known : Kernel{};
}

Place place_of(const Pc& pc) noexcept {
  std::atomic<Loaded*>* known = pc.code_object ? entry(objects, pc.code_object, kMostObjects, false) : nullptr;
  const Loaded* loaded = known ? known->load(std::memory_order_acquire) : nullptr;
  if (!loaded || !loaded->functions) return {};
  uint64_t address = pc.offset + loaded->to_elf;
  Function* begin = loaded->functions;
  Function* after = std::upper_bound(begin, begin + loaded->count, address, [](uint64_t at, const Function& one) { return at < one.start; });
  bool inside = after != begin && address < after[-1].end;
  Function& function = inside ? after[-1] : begin[loaded->count];
  uint64_t current = recording.load(std::memory_order_relaxed), row = function.row.load(std::memory_order_acquire);
  if (row >> 32 != current) {
    row = current << 32 | spool::append(schema::GpuFunction{.cubin = loaded->crc, .name = spool::text(function.name)});
    function.row.store(row, std::memory_order_release);
  }
  return {.function = static_cast<uint32_t>(row), .offset = static_cast<uint32_t>(address - function.start)};
}

void forget_functions() noexcept { recording.fetch_add(1, std::memory_order_relaxed); }

}  // namespace aiflame::rocprofiler
