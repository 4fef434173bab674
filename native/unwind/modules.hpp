// Finds the file to which an address belongs, from /proc/self/maps: the dynamic linker's lock is never taken, so handlers may use it.
//
// A module is looked up when an unknown address occurs; its unwind tables are read through our own mapping of the file, so that a dlclose() in
// another thread cannot remove them. Ids are rows of the `modules` table.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::modules {

// A function's first address and its unwind entry (FDE), both relative to Module::index_vaddr: the layout of the search table
// in `.eh_frame_hdr`.
struct IndexEntry {
  int32_t pc, fde;
};

struct Module {
  uint64_t low, high;       // executable addresses covered
  uint64_t base;            // address minus ELF vaddr
  const IndexEntry* index;  // its functions by address, nullptr: no unwind information
  uint64_t index_vaddr;     // the address that the index's offsets start from
  const uint8_t* tables;    // our view of the segment that holds the unwind entries …
  uint64_t tables_vaddr;    // … and the vaddr that the view starts at
  uint64_t tables_bytes;
  uint32_t index_count;
  uint32_t id;    // row of `modules`; 0 for anonymous memory, and while nothing is recorded
  uint32_t view;  // which of our views of files; 0: anonymous executable memory
};

// Copies the module that contains `pc`. False: there is no executable mapping (or it cannot be looked up just now).
bool find(uint64_t pc, Module* out) noexcept;

// Like find(), but only from cached data: for addresses that are only guesses.
bool find_known(uint64_t pc, Module* out) noexcept;

// A number that changes whenever an answer of find() may have changed: caches compare it.
uint32_t generation() noexcept;

// Called when a module was unloaded (dlclose) or may have been loaded: the next find() reads the map again.
void changed() noexcept;

// Reads the map now. For moments when time does not matter: at start and after a fork.
void refresh() noexcept;

// Forgets the ids, since the child of a fork writes its own tables.
void forget_rows() noexcept;

}  // namespace aiflame::modules
