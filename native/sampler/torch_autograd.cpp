#include "sampler/torch_autograd.hpp"

#include "base/large.hpp"
#include "base/safe_load.hpp"
#include "base/sys.hpp"
#include "sampler/signals.hpp"
#include "spool/spool.hpp"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <atomic>
#include <cstring>

namespace aiflame::torch_autograd {

namespace {

constexpr uint16_t kBackward = 1u << 15;
constexpr uint64_t kNoNumber = ~0ull;  // of nodes that add a gradient up: they are ready to run as soon as they can

struct Library {
  void* handle;
  uint64_t (*next_number)();
  uint64_t (*thread_number)();
  // A smart pointer by value: std::shared_ptr up to 2.12, c10::intrusive_ptr since. Both come through memory of the caller's, pointer first.
  void* (*current_node)(void* result);
  const void* (*modes)();
  bool (*nodes_are_made)();
  void (*make_nodes)(bool);
};
Library library;

// Offsets of the three variables in libtorch's block of thread-local memory; of two members in a node; of the mode, a word and a bit of it, 0 when
// not known; and the library that has the nodes of Python.
struct Places {
  uint64_t next_number, thread_number, current_node;
  uint64_t node_sequence, node_thread;
  uint64_t mode_word, mode_bit;
  uint64_t python_low, python_high;
};
Places places;
constinit std::atomic<bool> known{false};

struct Here {
  uint64_t block;  // the thread's copy of libtorch's thread-local memory, 0: not known
  uint64_t modes;  // address of the thread's modes: one says whether nodes are made
  uint64_t last;   // the last backward node that was seen, packed
  uint32_t asked;
};
thread_local Here here;

// A thread that has never run an operator has no block. (Asking allocates none.) Asked ever more rarely.
bool find_block() noexcept {
  uint32_t asked = ++here.asked;
  if (asked & (asked - 1)) return false;
  void* block = nullptr;
  if (dlinfo(library.handle, RTLD_DI_TLS_DATA, &block) != 0 || !block) return false;
  here.modes = places.mode_bit ? reinterpret_cast<uint64_t>(library.modes()) : 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // a tick that finds the block finds the modes
  here.block = reinterpret_cast<uint64_t>(block);
  return true;
}

// Fifteen bits, never 0.
uint16_t short_number(uint64_t thread) noexcept { return static_cast<uint16_t>(1 + (thread - 1) % 0x7fff); }

Point unpacked(uint64_t point) noexcept { return {static_cast<uint16_t>(point >> 32), static_cast<uint32_t>(point)}; }

// A node of Python's that runs with nodes being made runs forward code again: activation checkpointing.
bool recomputes(uint64_t node) noexcept {
  if (!here.modes || !(safe_load(here.modes + places.mode_word) & places.mode_bit)) return false;
  uint64_t type = safe_load(node);
  return type >= places.python_low && type < places.python_high;
}

Point read(bool exact) noexcept {
  uint64_t node = safe_load(here.block + places.current_node);
  uint64_t thread = safe_load(here.block + places.thread_number);
  if (node && !recomputes(node)) {
    uint64_t sequence = safe_load(node + places.node_sequence);
    if (sequence != kNoNumber) {
      Point point{static_cast<uint16_t>(kBackward | short_number(safe_load(node + places.node_thread))), static_cast<uint32_t>(sequence)};
      here.last = packed(point);
      return point;
    }
    // Launches cannot miss a node that launches work: the previous node has just given this one its gradient. Ticks miss most nodes.
    if (exact && here.last) return unpacked(here.last);
    return {static_cast<uint16_t>(kBackward | short_number(thread)), static_cast<uint32_t>(kNoNumber)};
  }
  if (!thread) return {};  // it has made no node yet
  return {short_number(thread), static_cast<uint32_t>(safe_load(here.block + places.next_number) - 1)};
}

int look_at(dl_phdr_info* info, size_t, void* data) noexcept {
  const char* name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : nullptr;
  if (!name) return 0;
  if (!strcmp(name, "/libtorch_cpu.so")) *static_cast<const char**>(data) = info->dlpi_name;
  if (!strcmp(name, "/libtorch_python.so")) {
    places.python_low = info->dlpi_addr;
    for (int at = 0; at < info->dlpi_phnum; at++)
      if (const ElfW(Phdr) & segment = info->dlpi_phdr[at]; segment.p_type == PT_LOAD)
        places.python_high = info->dlpi_addr + segment.p_vaddr + segment.p_memsz;
  }
  return 0;
}

template <class Function>
void find(const char* name, Function* out) noexcept {
  *out = reinterpret_cast<Function>(dlsym(library.handle, name));
}

bool find_library() noexcept {
  const char* path = nullptr;
  dl_iterate_phdr(look_at, &path);
  if (!path || !(library.handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY))) return false;
  find("_ZN2at15sequence_number4peekEv", &library.next_number);
  find("_ZN2at14RecordFunction15currentThreadIdEv", &library.thread_number);
  find("_ZN5torch8autograd16get_current_nodeEv", &library.current_node);
  find("_ZN3c1013AutogradState13get_tls_stateEv", &library.modes);
  find("_ZN3c108GradMode10is_enabledEv", &library.nodes_are_made);
  find("_ZN3c108GradMode11set_enabledEb", &library.make_nodes);
  return library.next_number && library.thread_number && library.current_node;
}

struct Block {
  uint64_t address, bytes;
};

// The calling thread's.
Block own_block() noexcept {
  struct Search {
    uint64_t inside;
    Block found;
  } search{reinterpret_cast<uint64_t>(library.next_number), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* wanted = static_cast<Search*>(data);
        Block block{reinterpret_cast<uint64_t>(info->dlpi_tls_data), 0};
        bool is_it = false;
        for (int at = 0; at < info->dlpi_phnum; at++) {
          const ElfW(Phdr) & segment = info->dlpi_phdr[at];
          uint64_t low = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type == PT_TLS) block.bytes = segment.p_memsz;
          is_it |= segment.p_type == PT_LOAD && wanted->inside >= low && wanted->inside < low + segment.p_memsz;
        }
        if (!is_it) return 0;
        wanted->found = block;
        return 1;
      },
      &search);
  return search.found;
}

// Finds the word of the block from which a function answers: the one that, changed for a moment, changes the answer.
template <class Answer>
bool find_word(const Block& block, uint64_t other, Answer answer, uint64_t* place) noexcept {
  uint64_t before = answer();
  for (uint64_t at = 0; at + sizeof(uint64_t) <= block.bytes; at += sizeof(uint64_t)) {
    auto* word = reinterpret_cast<volatile uint64_t*>(block.address + at);
    if (*word != before) continue;
    *word = other;
    bool found = answer() == other;
    *word = before;
    if (found) {
      *place = at;
      return true;
    }
  }
  return false;
}

// No node is running here, so a fake one is set, which nobody can free: reference counting works on our memory, from a high number.
AIFLAME_LARGE uint64_t pretended_node[64];

uint64_t current_node() noexcept {
  uint64_t result[4]{};
  library.current_node(result);
  return result[0];
}

// Finds the bit of the modes that changes with the mode.
void find_mode() noexcept {
  if (!library.modes || !library.nodes_are_made || !library.make_nodes) return;
  auto modes = reinterpret_cast<uint64_t>(library.modes());
  bool was = library.nodes_are_made();
  uint64_t on[4], off[4];
  library.make_nodes(true);
  for (uint32_t word = 0; word < 4; word++) on[word] = safe_load(modes + 8 * word);
  library.make_nodes(false);
  for (uint32_t word = 0; word < 4; word++) off[word] = safe_load(modes + 8 * word);
  library.make_nodes(was);
  for (uint32_t word = 0; word < 4; word++) {
    if (on[word] == off[word]) continue;
    places.mode_word = 8 * word;
    places.mode_bit = on[word] & ~off[word];
  }
}

bool find_words() noexcept {
  library.next_number();
  if (!library.thread_number() || current_node()) return false;  // each touches its variable, so that it exists
  Block block = own_block();
  if (!block.address) return false;
  for (uint64_t& word : pretended_node) word = 1u << 20;
  // But for faults of safe_load.
  uint64_t all = ~(1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1)), mask = 0;
  sys::call(SYS_rt_sigprocmask, SIG_BLOCK, reinterpret_cast<long>(&all), reinterpret_cast<long>(&mask), sizeof mask);
  bool found = find_word(block, library.next_number() + 0x5a5a5a, library.next_number, &places.next_number) &&
               find_word(block, library.thread_number() + 0x5a5a5a, library.thread_number, &places.thread_number) &&
               find_word(block, reinterpret_cast<uint64_t>(pretended_node), current_node, &places.current_node);
  find_mode();
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&mask), 0, sizeof mask);
  return found;
}

// Words of a node that contained the number in each of the nodes seen: a bit for each word.
class Candidates {
 public:
  void narrow(uint64_t node, uint64_t number) noexcept {
    for (uint32_t word = 0; word < 16; word++)
      if (safe_load(node + 8 * word, ~number) != number) words_ &= ~(1u << word);
  }
  bool one(uint64_t* place) const noexcept {
    *place = 8u * static_cast<uint32_t>(__builtin_ctz(words_ | 1u << 31));
    return __builtin_popcount(words_) == 1;
  }

 private:
  uint32_t words_ = 0xffff;
};
constinit Candidates sequences, threads;
uint32_t seen;
constexpr uint32_t kEnough = 4;

}  // namespace

uint64_t packed(Point point) noexcept { return static_cast<uint64_t>(point.autograd) << 32 | point.sequence; }

Point now() noexcept {
  if (!known.load(std::memory_order_acquire)) return {};
  if (!here.block && !find_block()) return {};
  signals::FaultsOpen faults;
  return read(true);
}

void runs(const void* node) noexcept {
  if (!known.load(std::memory_order_acquire)) return;
  auto address = reinterpret_cast<uint64_t>(node);
  signals::FaultsOpen faults;
  uint64_t sequence = safe_load(address + places.node_sequence, kNoNumber);
  if (sequence == kNoNumber) return;
  here.last = packed({static_cast<uint16_t>(kBackward | short_number(safe_load(address + places.node_thread))), static_cast<uint32_t>(sequence)});
}

Point after_backward() noexcept {
  if (here.last) return unpacked(here.last);
  Point point = now();
  return point.autograd ? Point{static_cast<uint16_t>(point.autograd | kBackward), static_cast<uint32_t>(kNoNumber)} : Point{};
}

Point next() noexcept {
  if (!known.load(std::memory_order_acquire) || (!here.block && !find_block())) return {};
  uint64_t thread = safe_load(here.block + places.thread_number);
  if (!thread) return {};
  return {short_number(thread), static_cast<uint32_t>(safe_load(here.block + places.next_number))};
}

Point in_tick(const Thread& thread) noexcept {
  if (!known.load(std::memory_order_acquire)) return {};
  if (here.block) return read(false);
  return thread.launched_by ? unpacked(thread.launched_point) : Point{};
}

// Python holds its lock meanwhile: one caller at a time.
void* calibrate(uint64_t node, uint64_t sequence, uint64_t thread) noexcept {
  if (known.load(std::memory_order_relaxed) || seen == kEnough) return nullptr;
  bool whole = library.handle ? library.current_node != nullptr : find_library();
  if (whole) {
    sequences.narrow(node, sequence);
    threads.narrow(node, thread ? thread : library.thread_number());
  }
  if (++seen < kEnough) return nullptr;
  if (!whole || !sequences.one(&places.node_sequence) || !threads.one(&places.node_thread) || !find_words()) {
    spool::note("torch's autograd is not read (this version is not known): backward work is not led to its forward code");
    return nullptr;
  }
  known.store(true, std::memory_order_release);
  now();
  return library.handle;
}

void finish_nodes(Thread& thread, uint32_t row) noexcept {
  NodeRun run = thread.nodes_made;
  thread.nodes_made.layer = 0;
  if (!run.layer || !run.autograd) return;
  spool::append(schema::LayerCall{.thread = row,
                                  .layer = run.layer,
                                  .autograd = run.autograd,
                                  .sequence_begin = run.sequence_begin,
                                  .sequence_end = run.sequence_end,
                                  .begin_ns = run.begin_ns,
                                  .end_ns = run.end_ns});
}

}  // namespace aiflame::torch_autograd
