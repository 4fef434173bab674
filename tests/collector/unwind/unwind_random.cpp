// Garbage in place of unwind tables and stacks: no walk may read outside of them, and every walk must end.
//
//   unwind_random tables SEED ROUNDS    mutated copies of libc's tables, rules asked for random addresses
//   unwind_random stacks SEED ROUNDS    stacks of random words, many of which look like addresses; random registers
#include "innermost_first.hpp"
#include "unwind/eh_frame.hpp"

#include <sys/mman.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace aiflame;

namespace {

// Memory that ends at a page nobody may touch.
struct Guarded {
  explicit Guarded(size_t bytes) {
    size_t pages = (bytes + 4095) / 4096 * 4096;
    auto* memory = static_cast<uint8_t*>(mmap(nullptr, pages + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) + 4096;
    mprotect(memory, pages, PROT_READ | PROT_WRITE);
    begin = memory + pages - bytes;
  }
  uint8_t* begin;
};

void tables(std::mt19937_64& random, int rounds) {
  modules::Module libc{};
  modules::find(reinterpret_cast<uint64_t>(&qsort), &libc);
  Guarded copy(libc.tables_bytes), index(libc.index_count * sizeof(modules::IndexEntry));
  memcpy(copy.begin, libc.tables, libc.tables_bytes);
  memcpy(index.begin, libc.index, libc.index_count * sizeof(modules::IndexEntry));
  modules::Module mutated = libc;
  mutated.tables = copy.begin;
  mutated.index = reinterpret_cast<const modules::IndexEntry*>(index.begin);
  uint64_t rules = 0;
  // Only the part that holds entries is worth damaging.
  uint64_t first = libc.index_vaddr - libc.tables_vaddr;
  for (int round = 0; round < rounds; round++) {
    uint64_t at = first + random() % (libc.tables_bytes - first);
    uint8_t before = copy.begin[at];
    copy.begin[at] = static_cast<uint8_t>(random());
    uint64_t slot = random() % (libc.index_count * sizeof(modules::IndexEntry));
    uint8_t slot_before = index.begin[slot];
    if (round % 4 == 0) index.begin[slot] = static_cast<uint8_t>(random());
    for (int ask = 0; ask < 8; ask++) rules += eh_frame::find_row(mutated, libc.low + random() % (libc.high - libc.low)).cfa != eh_frame::Cfa::NONE;
    // The function whose entry was hit.
    const modules::IndexEntry& hit = libc.index[random() % libc.index_count];
    rules += eh_frame::find_row(mutated, libc.base + libc.index_vaddr + static_cast<uint64_t>(int64_t{hit.pc})).cfa != eh_frame::Cfa::NONE;
    eh_frame::index_section(copy.begin + at, libc.tables_vaddr + at, libc.tables_bytes - at, nullptr, 0);
    // Damage piles up, and is mended now and then.
    if (round % 64 == 0) memcpy(copy.begin, libc.tables, libc.tables_bytes);
    if (round % 3 == 0) copy.begin[at] = before;
    index.begin[slot] = slot_before;
  }
  printf("{\"rules\": %lu}\n", rules);
}

void stacks(std::mt19937_64& random, int rounds) {
  constexpr size_t kWords = 2048;
  constexpr size_t kRoom = 300;
  Guarded memory(kWords * 8);
  auto* words = reinterpret_cast<uint64_t*>(memory.begin);
  auto low = reinterpret_cast<uint64_t>(words), high = low + kWords * 8;
  modules::Module libc{}, self{};
  modules::find(reinterpret_cast<uint64_t>(&qsort), &libc);
  modules::find(reinterpret_cast<uint64_t>(&stacks), &self);
  auto value = [&]() -> uint64_t {
    switch (random() % 6) {
      case 0:
        return libc.low + random() % (libc.high - libc.low);
      case 1:
        return self.low + random() % (self.high - self.low);
      case 2:
        return low + random() % (high - low);
      case 3:
        return (low + random() % (high - low)) & ~uint64_t{7};
      case 4:
        return random();
      default:
        return random() % 8192;
    }
  };
  NativeUnwinder* unwinder = NativeUnwinder::create();
  std::vector<NativeFrame> frames(kRoom);
  uint64_t endings[5] = {}, longest = 0, outside = 0;
  for (int round = 0; round < rounds; round++) {
    for (size_t at = 0; at < kWords; at++)
      if (round % 16 == 0 || random() % 8 == 0) words[at] = value();
    greg_t all[NGREG];
    for (greg_t& reg : all) reg = static_cast<greg_t>(value());
    Registers from{value(), low + 128 + random() % (high - low - 128), value(), random() % 2 ? all : nullptr, random() % 2 == 0};
    Ending ending;
    size_t count = innermost_first(*unwinder, from, high, frames.data(), kRoom, &ending);
    endings[static_cast<int>(ending)]++;
    longest = count > longest ? count : longest;
    for (size_t at = 0; at < count; at++) outside += frames[at].sp < low || frames[at].cfa > high;
  }
  printf("{\"endings\": [%lu, %lu, %lu, %lu, %lu], \"longest\": %lu, \"outside\": %lu}\n", endings[0], endings[1], endings[2], endings[3], endings[4],
         longest, outside);
}

}  // namespace

int main(int, char** arguments) {
  std::mt19937_64 random(static_cast<uint64_t>(atoll(arguments[2])));
  (arguments[1] == std::string("tables") ? tables : stacks)(random, atoi(arguments[3]));
  return 0;
}
