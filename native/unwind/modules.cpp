#include "unwind/modules.hpp"

#include "base/apart.hpp"
#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "spool/spool.hpp"
#include "unwind/generation.hpp"
#include "unwind/modules_views.hpp"
#include "unwind/snapshot.hpp"

#include <algorithm>
#include <atomic>

namespace aiflame::modules {

namespace {

Snapshot<Module> shown;
std::atomic<uint32_t> generation_number{1};

void next_generation() noexcept {
  generation_number.fetch_add(1, std::memory_order_release);
  generation::end();
}
std::atomic<bool> stale{true};
std::atomic<bool> writing{false};

// A refresh that found nothing new delays the next one, so that code with many unknown addresses stays cheap.
constexpr uint64_t kLongestPause = 250'000'000;
// Anonymous memory may be unmapped and a file mapped in its place without our noticing.
constexpr uint64_t kAnonymousLasts = 1'000'000'000;
std::atomic<uint64_t> pause_ns{0}, not_before_ns{0}, refreshed_ns{0};

// Rows of tables before the last forget_rows() are gone. (Not written into each placement: the child of a fork would copy that memory.)
std::atomic<uint32_t> recordings{0};

// A file at a load address, which has a row in the `modules` table. Lives in a list that starts at FileView::placed.
struct Placement {
  uint64_t base, low, high;
  uint32_t view, next, round, path, id;
  uint32_t recording;  // of the id

  bool has_row() const noexcept { return id && recording == recordings.load(std::memory_order_relaxed); }
};

// Data that only the writer uses.
struct Writer {
  Views views;
  Grown<Placement> placements;
  Grown<Module> found;
  Grown<uint32_t> placement_of;  // of each entry of `found`
  uint32_t round = 0;            // refreshes so far
  char line_buffer[4 * MapsReader::kLine] = {};

  void read_map(MapsReader& maps) noexcept;
  void add(const Mapping& mapping, uint64_t image) noexcept;
  uint32_t place(uint32_t view, uint64_t base) noexcept;
  void name_rows() noexcept;
  bool publish() noexcept;
};
AIFLAME_LARGE constinit Writer writer;

bool plausible(uint64_t pc) noexcept { return pc >= 65536 && pc < uint64_t{1} << 47; }

enum class MapRead : uint8_t { WHOLE, NO_DESCRIPTOR, FAILED };

MapRead read_map() noexcept {
  MapsReader maps(writer.line_buffer, sizeof writer.line_buffer);
  writer.read_map(maps);
  return maps.whole() ? MapRead::WHOLE : maps.no_descriptor() ? MapRead::NO_DESCRIPTOR : MapRead::FAILED;
}

// Reads the map, unless another thread is reading it. True when it has changed.
bool try_refresh() noexcept {
  if (writing.exchange(true, std::memory_order_acquire)) return false;
  stale.store(false, std::memory_order_seq_cst);
  uint64_t begin = now_ns();
  bool differs = false;
  MapRead read = read_map();
  if (read == MapRead::NO_DESCRIPTOR) run_apart([](void* result) noexcept { *static_cast<MapRead*>(result) = read_map(); }, &read);
  if (read == MapRead::WHOLE) {
    writer.name_rows();
    differs = writer.publish();
    if (differs) next_generation();
  } else {
    spool::note("/proc/self/maps cannot be read: native frames are addresses only");
  }
  uint64_t end = now_ns(), cost = end - begin;
  uint64_t pause = differs ? 0 : std::min(kLongestPause, std::max(2 * pause_ns.load(std::memory_order_relaxed), 20 * cost));
  pause_ns.store(pause, std::memory_order_relaxed);
  not_before_ns.store(end + pause, std::memory_order_relaxed);
  refreshed_ns.store(end, std::memory_order_relaxed);
  writing.store(false, std::memory_order_release);
  return differs;
}

void Writer::read_map(MapsReader& maps) noexcept {
  found.clear();
  placement_of.clear();
  round++;
  Mapping mapping;
  uint64_t image = 0, image_device = 0, image_inode = 0;
  while (maps.next(&mapping)) {
    if (mapping.offset == 0) {
      image = mapping.start;
      image_device = mapping.device;
      image_inode = mapping.inode;
    }
    bool same_file = mapping.inode == image_inode && mapping.device == image_device;
    if (mapping.executable) add(mapping, same_file ? image : 0);
  }
}

void Writer::add(const Mapping& mapping, uint64_t image) noexcept {
  uint32_t view = views.of(mapping, image, round);
  uint64_t vaddr, base = 0;
  uint32_t placement = 0;
  if (view) {
    base = mapping.start - mapping.offset;
    if (views[view].elf.vaddr_of(mapping.offset, &vaddr)) base = mapping.start - vaddr;
    placement = place(view, base);
    if (!placement) return;
    Placement& placed = placements[placement - 1];
    if (!placed.has_row()) {
      std::string_view path = mapping.path;
      if (path.ends_with(" (deleted)")) path.remove_suffix(10);
      placed.path = spool::text(path);
    }
    bool first = placed.round != round;
    placed.low = first ? mapping.start : std::min(placed.low, mapping.start);
    placed.high = first ? mapping.end : std::max(placed.high, mapping.end);
    placed.round = round;
  }
  if (found.size()) {
    Module& before = found[found.size() - 1];
    if (before.high == mapping.start && before.view == view && before.base == base) {
      before.high = mapping.end;
      return;
    }
  }
  uint32_t* number = placement_of.add();
  Module* module = number ? found.add() : nullptr;
  if (!module) return;
  *number = placement;
  module->low = mapping.start;
  module->high = mapping.end;
  module->base = base;
  module->view = view;
  if (!view) return;
  const ElfView& elf = views[view].elf;
  module->index = elf.index;
  module->index_count = elf.index_count;
  module->index_vaddr = elf.index_vaddr;
  module->tables = elf.tables;
  module->tables_vaddr = elf.tables_vaddr;
  module->tables_bytes = elf.tables_bytes;
}

uint32_t Writer::place(uint32_t view, uint64_t base) noexcept {
  for (uint32_t at = views[view].placed; at; at = placements[at - 1].next)
    if (placements[at - 1].base == base) return at;
  Placement* placed = placements.add();
  if (!placed) return 0;
  placed->base = base;
  placed->view = view;
  placed->next = views[view].placed;
  return views[view].placed = placements.size();
}

void Writer::name_rows() noexcept {
  for (uint32_t at = 0; at < found.size(); at++) {
    if (!found[at].view) continue;
    Placement& placed = placements[placement_of[at] - 1];
    if (!placed.has_row()) {
      const FileView& view = views[placed.view];
      std::string_view build_id(reinterpret_cast<const char*>(view.elf.build_id), view.elf.build_id_bytes);
      placed.id = spool::append(schema::ModuleRecord{.path = placed.path,
                                                     .build_id = spool::text(build_id),
                                                     .base = placed.base,
                                                     .low = placed.low,
                                                     .high = placed.high,
                                                     .inode = view.inode,
                                                     .device = view.device,
                                                     .seen_ns = now_ns()});
      placed.recording = recordings.load(std::memory_order_relaxed);
    }
    found[at].id = placed.id;
  }
}

bool Writer::publish() noexcept {
  auto same = [](const Module& left, const Module& right) {
    return left.low == right.low && left.high == right.high && left.base == right.base && left.view == right.view && left.id == right.id;
  };
  const Module* first = found.size() ? &found[0] : nullptr;
  if (shown.count() == found.size() && std::equal(first, first + found.size(), shown.entries(), same)) return false;
  Module* draft = shown.draft(found.size());
  if (!draft) return false;
  memcpy(static_cast<void*>(draft), first, found.size() * sizeof(Module));
  shown.publish(found.size());
  return true;
}

}  // namespace

bool find(uint64_t pc, Module* out) noexcept {
  if (!plausible(pc)) return false;
  if (stale.load(std::memory_order_relaxed)) try_refresh();
  bool known = shown.find(pc, out);
  if (known && out->view) return true;
  uint64_t now = now_ns();
  bool due = known ? now > refreshed_ns.load(std::memory_order_relaxed) + kAnonymousLasts : now >= not_before_ns.load(std::memory_order_relaxed);
  return due && try_refresh() ? shown.find(pc, out) : known;
}

bool find_known(uint64_t pc, Module* out) noexcept { return plausible(pc) && shown.find(pc, out); }

uint32_t generation() noexcept { return generation_number.load(std::memory_order_acquire); }

void changed() noexcept {
  stale.store(true, std::memory_order_seq_cst);
  next_generation();
}

void refresh() noexcept { try_refresh(); }

void forget_rows() noexcept {
  // A thread that does not exist in the child may have been writing: its unfinished data is not shown, and the views that it added are complete.
  writing.store(false, std::memory_order_relaxed);
  recordings.fetch_add(1, std::memory_order_relaxed);
  changed();
}

}  // namespace aiflame::modules
