#include "unwind/python_codes.hpp"

#include "base/safe_load.hpp"
#include "base/scratch.hpp"
#include "base/sys.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"
#include "unwind/generation.hpp"

#include <sys/mman.h>
#include <atomic>
#include <bit>
#include <cstring>

namespace aiflame::python::codes {

namespace {

Layout at;
Types types;

// An address may be freed and reused for other code. The deallocator reports that (free_counted); in case it is bypassed, a fingerprint
// distinguishes most code objects.
// One word holds fingerprint and id, so that a reader never combines the fingerprint of one code object with the id of another.
struct Entry {
  std::atomic<uint64_t> address;
  std::atomic<uint64_t> mark;  // fingerprint, and the answer of look_up() in the low bits; 0 while it is replaced
};
constexpr uint32_t kEntries = 1 << 18;  // 4 MiB of address space; only touched pages take memory
constexpr uint32_t kProbes = 16;
constexpr uint64_t kIdMask = (1ull << kIdBits) - 1, kAnswer = kIdMask | kLayerCall;
std::atomic<Entry*> table;

constexpr size_t kLongestName = 4096;

Entry* entries() noexcept {
  Entry* known = table.load(std::memory_order_acquire);
  if (known) return known;
  auto* fresh = static_cast<Entry*>(sys::map_memory(kEntries * sizeof(Entry)));
  if (!fresh) return nullptr;
  if (table.compare_exchange_strong(known, fresh)) return fresh;
  sys::unmap_memory(fresh, kEntries * sizeof(Entry));
  return known;
}

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;

uint32_t home_of(uint64_t code) noexcept {
  static_assert(kEntries == 1u << (64 - 46));
  return static_cast<uint32_t>((code >> 4) * kOdd >> 46);
}

// PyTypeObject: tp_dealloc, at its place since 2.2, and its number in the stable ABI.
constexpr uint64_t kTypeFree = 48;
constexpr int kFreeSlot = 52;
void (*free_code)(void*) = nullptr;
std::atomic<uint64_t> eras{1};

void next_era() noexcept {
  eras.fetch_add(1);
  generation::end();
}

void forget(uint64_t code) noexcept {
  Entry* all = table.load(std::memory_order_acquire);
  for (uint32_t probe = 0; all && probe < kProbes; probe++) {
    Entry& entry = all[(home_of(code) + probe) % kEntries];
    uint64_t owner = entry.address.load(std::memory_order_acquire);
    if (owner == code) entry.mark.store(0, std::memory_order_release);
    if (owner == code || owner == 0) return;
  }
}

// Replaces the type's own function, and calls it; that runs Python code (callbacks of weak references).
void free_counted(void* code) {
  next_era();
  forget(reinterpret_cast<uint64_t>(code));
  free_code(code);
}

// Distinguishes this code object from others at the same address, before or later.
uint64_t fingerprint(uint64_t code) noexcept {
  uint64_t linetable = safe_load(code + at.code_linetable);
  uint64_t place = linetable ^ safe_load(code + at.code_first_line) << 48, content;
  if (at.code_version) {
    // From 3.12 on the interpreter numbers its code objects.
    content = safe_load(code + at.code_version) << 32;
  } else {
    // A loop that creates and drops code gets the same addresses for all its parts, so we compare the contents: the cached hashes of the names;
    // the size and three words of the line table.
    uint64_t qualname = safe_load(code + at.code_qualname), filename = safe_load(code + at.code_filename);
    uint64_t size = safe_load(linetable + at.object_size), words = linetable + at.bytes_data;
    place ^= std::rotl(qualname, 11) ^ std::rotl(filename, 23);
    content = size ^ safe_load(qualname + at.text_hash) ^ std::rotl(safe_load(filename + at.text_hash), 32) ^ std::rotl(safe_load(words), 13) ^
              std::rotl(safe_load(words + (size / 2 & ~7ull)), 29) ^ std::rotl(safe_load(words + ((size - 1) & ~7ull)), 47);
  }
  uint64_t mixed = place * 0xD6E8FEB86659FD93u ^ std::rotl(content * kOdd, 32);
  return mixed * kOdd & ~kAnswer;
}

bool is_a(uint64_t object, uint64_t type) noexcept { return object > 4096 && object % 8 == 0 && safe_load(object + at.object_type) == type; }

// Objects are aligned, so reading whole words never touches a page that the object does not.
size_t copy_words(uint64_t from, size_t bytes, char* out) noexcept {
  size_t done = 0;
  for (uint64_t word; done + 8 <= bytes; done += 8) {
    word = safe_load(from + done);
    memcpy(out + done, &word, 8);
  }
  if (done < bytes) {
    uint64_t word = safe_load(from + done);
    memcpy(out + done, &word, bytes - done);
  }
  return bytes;
}

size_t put_utf8(uint32_t character, char* out) noexcept {
  auto byte = [](uint32_t value) { return static_cast<char>(value); };
  if (character < 0x80) {
    out[0] = byte(character);
    return 1;
  }
  // A file name that is not UTF-8 has its bytes escaped as surrogates (PEP 383), which become bytes again.
  if (character >= 0xDC80 && character <= 0xDCFF) {
    out[0] = byte(character - 0xDC00);
    return 1;
  }
  if (character < 0x800) {
    out[0] = byte(0xC0 | character >> 6);
    out[1] = byte(0x80 | (character & 0x3F));
    return 2;
  }
  if (character < 0x10000) {
    out[0] = byte(0xE0 | character >> 12);
    out[1] = byte(0x80 | (character >> 6 & 0x3F));
    out[2] = byte(0x80 | (character & 0x3F));
    return 3;
  }
  out[0] = byte(0xF0 | (character >> 18 & 7));
  out[1] = byte(0x80 | (character >> 12 & 0x3F));
  out[2] = byte(0x80 | (character >> 6 & 0x3F));
  out[3] = byte(0x80 | (character & 0x3F));
  return 4;
}

// `width` is 1, 2 or 4 bytes a character.
size_t encode(uint64_t from, uint64_t length, uint32_t width, char* out, size_t room) noexcept {
  size_t done = 0;
  uint64_t word = 0;
  for (uint64_t byte = 0; byte < length * width && done + 4 <= room; byte += width) {
    if (byte % 8 == 0) word = safe_load(from + byte);
    auto character = static_cast<uint32_t>(word >> byte % 8 * 8 & (width == 4 ? 0xFFFFFFFFu : (1u << width * 8) - 1));
    done += put_utf8(character, out + done);
  }
  return done;
}

// torch.nn.Module._call_impl, through which every call of a module passes. Only 3.10 lacks the class in its name.
bool is_layer_call(uint64_t code, std::string_view qualname, std::string_view filename) noexcept {
  return qualname == (at.version < 0x030b ? "_call_impl" : "Module._call_impl") && filename.ends_with("torch/nn/modules/module.py") &&
         static_cast<int32_t>(safe_load(code + at.code_arguments)) >= 1 && control::has(schema::Feature::MEANING);
}

__attribute__((noinline)) uint32_t record(uint64_t code) noexcept {
  Scratch scratch;
  if (!is_a(code, types.code) || !scratch.data()) return 0;
  char* second = scratch.data() + kLongestName;
  std::string_view filename(scratch.data(), copy_text(safe_load(code + at.code_filename), scratch.data(), kLongestName));
  std::string_view qualname(second, copy_text(safe_load(code + at.code_qualname), second, kLongestName));
  schema::CodeRecord row{
      .first_line = static_cast<uint32_t>(safe_load(code + at.code_first_line)),
      .filename = spool::text(filename),
      .qualname = spool::text(qualname),
      .python = at.version,
  };
  uint32_t layer_call = is_layer_call(code, qualname, filename) ? kLayerCall : 0;
  row.linetable = spool::text({scratch.data(), copy_bytes(safe_load(code + at.code_linetable), scratch.data(), scratch.size())});
  uint32_t id = spool::append(row);
  return id && id <= kIdMask ? id | layer_call : 0;
}

// Two threads may record the same code at the same time: two equal rows do no harm.
__attribute__((noinline)) uint32_t add(Entry* all, uint32_t home, uint64_t code, uint64_t print) noexcept {
  uint32_t answer = record(code);
  if (!answer) return 0;
  // Its own entry, a free one, or (when the neighbourhood is full of code that may be long gone) the first.
  Entry* entry = &all[home];
  for (uint32_t probe = 0; probe < kProbes; probe++) {
    Entry* candidate = &all[(home + probe) % kEntries];
    uint64_t owner = candidate->address.load(std::memory_order_relaxed);
    if (owner == code || owner == 0) {
      entry = candidate;
      break;
    }
  }
  entry->mark.store(0, std::memory_order_release);
  entry->address.store(code, std::memory_order_release);
  entry->mark.store(print | answer, std::memory_order_release);
  return answer;
}

}  // namespace

void use(const Layout& layout, const Types& known_types) noexcept {
  at = layout;
  types = known_types;
}

void count_freed(void* (*slot)(void*, int)) noexcept {
  if (free_code || !slot) return;
  auto* place = reinterpret_cast<void**>(types.code + kTypeFree);
  void* found = slot(reinterpret_cast<void*>(types.code), kFreeSlot);
  if (!found || *place != found) return;
  free_code = reinterpret_cast<void (*)(void*)>(found);
  std::atomic_ref(*place).store(reinterpret_cast<void*>(free_counted), std::memory_order_release);
}

// Another tool that replaces this function may not call ours.
uint64_t era() noexcept {
  if (!free_code || safe_load(types.code + kTypeFree) != reinterpret_cast<uint64_t>(free_counted)) return 0;
  return eras.load(std::memory_order_relaxed);
}

uint32_t look_up(uint64_t code) noexcept {
  Entry* all = entries();
  if (!all) return 0;
  uint64_t print = fingerprint(code);
  uint32_t home = home_of(code);
  for (uint32_t probe = 0; probe < kProbes; probe++) {
    Entry& entry = all[(home + probe) % kEntries];
    uint64_t owner = entry.address.load(std::memory_order_acquire);
    if (owner == code) {
      uint64_t mark = entry.mark.load(std::memory_order_acquire);
      if ((mark & ~kAnswer) == print && (mark & kIdMask)) return static_cast<uint32_t>(mark & kAnswer);
      break;
    }
    if (owner == 0) break;
  }
  return add(all, home, code, print);
}

size_t copy_text(uint64_t object, char* out, size_t room) noexcept {
  if (!is_a(object, types.text) || room == 0) return 0;
  uint64_t length = safe_load(object + at.text_length), state = safe_load(object + at.text_state);
  if (length > room) length = room;
  // PyASCIIObject.state: interned 2 bits, kind 3, compact 1, ascii 1.
  uint32_t width = state >> 2 & 7;
  bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
  if (!compact || (width != 1 && width != 2 && width != 4)) return 0;
  if (ascii) return copy_words(object + at.text_ascii, length, out);
  return encode(object + at.text_compact, length, width, out, room);
}

size_t copy_bytes(uint64_t object, char* out, size_t room) noexcept {
  if (!is_a(object, types.bytes)) return 0;
  uint64_t length = safe_load(object + at.object_size);
  return copy_words(object + at.bytes_data, length < room ? length : room, out);
}

// A look-up at the same time belongs to the era that ends here.
void forget_rows() noexcept {
  next_era();
  Entry* all = table.load(std::memory_order_acquire);
  if (all) sys::call(SYS_madvise, reinterpret_cast<long>(all), kEntries * sizeof(Entry), MADV_DONTNEED);
  next_era();
}

}  // namespace aiflame::python::codes
