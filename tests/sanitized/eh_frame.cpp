// The reader of `.eh_frame` on this program's and libc's tables: whole, cut short at every length, and with bytes changed at random. Each
// copy lies in memory of exactly its size, so that a read beyond it is found.
#include "unwind/eh_frame.hpp"
#include "check.hpp"
#include "unwind/eh_frame_reader.hpp"

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

using namespace aiflame;
using sanitized::check;

namespace {

using Bytes = std::unique_ptr<uint8_t[]>;

Bytes copy(const void* from, size_t bytes) {
  Bytes made(new uint8_t[bytes]);
  memcpy(made.get(), from, bytes);
  return made;
}

modules::Module module_of(const void* function) {
  modules::Module module{};
  check(modules::find(reinterpret_cast<uint64_t>(function), &module) && module.index && module.tables);
  return module;
}

uint64_t pc_of(const modules::Module& module, uint32_t function) {
  return module.base + module.index_vaddr + static_cast<uint64_t>(int64_t{module.index[function].pc});
}

void every_function_has_a_row(const modules::Module& module) {
  uint32_t rows = 0;
  for (uint32_t function = 0; function < module.index_count; function++)
    rows += eh_frame::find_row(module, pc_of(module, function)).cfa != eh_frame::Cfa::NONE;
  check(rows > module.index_count * 9 / 10);
}

// The entry of one function and the one that it shares, as few bytes as they take, then fewer and fewer.
void short_tables(const modules::Module& module, uint32_t function) {
  uint64_t entry = module.index_vaddr + static_cast<uint64_t>(int64_t{module.index[function].fde});
  eh_frame::View view{module.tables, module.tables_vaddr, module.tables_bytes};
  uint64_t end = eh_frame::next_entry(view, entry);
  uint64_t longest = (end ? end : entry + 64) - module.tables_vaddr;
  if (longest > 1 << 16) return;
  for (uint64_t length = longest; length + 80 > longest && length > 0; length--) {
    Bytes cut = copy(module.tables, length);
    modules::Module shorter = module;
    shorter.tables = cut.get();
    shorter.tables_bytes = length;
    for (uint64_t beyond : {0, 1, 9}) eh_frame::find_row(shorter, pc_of(module, function) + beyond);
    eh_frame::index_section(cut.get(), module.tables_vaddr, length, nullptr, 0);
  }
}

void damaged_tables(const modules::Module& module, std::mt19937_64& random) {
  uint64_t first = module.index_vaddr - module.tables_vaddr, bytes = module.tables_bytes;
  Bytes tables = copy(module.tables, bytes), index = copy(module.index, module.index_count * sizeof *module.index);
  modules::Module damaged = module;
  damaged.tables = tables.get();
  damaged.index = reinterpret_cast<const modules::IndexEntry*>(index.get());
  for (int round = 0; round < 20'000; round++) {
    uint32_t function = static_cast<uint32_t>(random() % module.index_count);
    uint64_t entry = module.index_vaddr + static_cast<uint64_t>(int64_t{module.index[function].fde}) - module.tables_vaddr;
    uint64_t at = round % 2 ? first + random() % (bytes - first) : std::min(entry + random() % 48, bytes - 1);
    tables[at] = static_cast<uint8_t>(random());
    if (round % 8 == 0) index[random() % (module.index_count * sizeof *module.index)] = static_cast<uint8_t>(random());
    eh_frame::find_row(damaged, pc_of(module, function) + random() % 32);
    if (round % 256 == 0) {
      std::vector<modules::IndexEntry> found(eh_frame::index_section(tables.get() + first, module.index_vaddr, bytes - first, nullptr, 0));
      eh_frame::index_section(tables.get() + first, module.index_vaddr, bytes - first, found.data(), found.size());
      memcpy(tables.get(), module.tables, bytes);
    }
  }
}

// An entry of nothing but random instructions.
void random_instructions(std::mt19937_64& random) {
  constexpr uint64_t kVaddr = 0x1000, kCie = 24, kFunction = 0x100;
  for (int round = 0; round < 100'000; round++) {
    size_t length = random() % 40;
    std::vector<uint8_t> section(kCie + 24 + length);
    auto put = [&](size_t at, auto value) { memcpy(section.data() + at, &value, sizeof value); };
    put(0, uint32_t{kCie - 4});
    memcpy(section.data() + 8, "\1\0\1\x78\x10\x0c\x07\x08\x90\1", 10);
    put(kCie, static_cast<uint32_t>(20 + length));
    put(kCie + 4, uint32_t{kCie + 4});
    put(kCie + 8, kVaddr + kFunction);
    put(kCie + 16, uint64_t{64});
    for (size_t at = 0; at < length; at++) section[kCie + 24 + at] = static_cast<uint8_t>(random() % 3 ? random() % 0x30 : random());
    Bytes exact = copy(section.data(), section.size());
    modules::IndexEntry index{static_cast<int32_t>(kFunction), static_cast<int32_t>(kCie)};
    modules::Module module{.low = kVaddr,
                           .high = kVaddr + 0x1000,
                           .index = &index,
                           .index_vaddr = kVaddr,
                           .tables = exact.get(),
                           .tables_vaddr = kVaddr,
                           .tables_bytes = section.size(),
                           .index_count = 1};
    eh_frame::Row row = eh_frame::find_row(module, kVaddr + kFunction + random() % 64);
    if (length == 0) check(row.cfa == eh_frame::Cfa::SP && row.cfa_offset == 8);
  }
}

}  // namespace

int main() {
  std::mt19937_64 random(1);
  for (const void* function : {reinterpret_cast<const void*>(&main), reinterpret_cast<const void*>(&qsort)}) {
    modules::Module module = module_of(function);
    if (sanitized::status()) return 1;
    every_function_has_a_row(module);
    for (uint32_t at = 0; at < module.index_count; at += 1 + module.index_count / 50) short_tables(module, at);
    damaged_tables(module, random);
  }
  random_instructions(random);
  return sanitized::status();
}
