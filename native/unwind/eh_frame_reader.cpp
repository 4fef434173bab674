#include "unwind/eh_frame_reader.hpp"

namespace aiflame::eh_frame {

namespace {

// The entry's bytes after its length field; an empty reader at the terminator.
Reader entry_at(const View& view, uint64_t vaddr) noexcept {
  Reader all(view, vaddr);
  uint64_t length = all.fixed<uint32_t>();
  if (length == 0xffffffff) length = all.fixed<uint64_t>();
  return all.take(length);
}

bool read_cie(const View& view, uint64_t vaddr, Cie* out) noexcept {
  Reader entry = entry_at(view, vaddr);
  if (entry.fixed<uint32_t>() != 0 || !entry.ok()) return false;
  auto version = entry.fixed<uint8_t>();
  if (version != 1 && version != 3) return false;
  auto* augmentation = reinterpret_cast<const char*>(entry.at());
  while (entry.ok() && entry.fixed<uint8_t>() != 0) continue;
  out->code_factor = entry.uleb();
  out->data_factor = entry.sleb();
  uint64_t return_address = version == 1 ? entry.fixed<uint8_t>() : entry.uleb();
  out->pointer_encoding = 0;
  out->signal = out->augmented = false;
  if (!entry.ok() || return_address != 16) return false;
  if (augmentation[0] == 'z') {
    out->augmented = true;
    Reader data = entry.take(entry.uleb());
    for (const char* letter = augmentation + 1; *letter; letter++) {
      if (*letter == 'R') out->pointer_encoding = data.fixed<uint8_t>();
      if (*letter == 'L') data.fixed<uint8_t>();
      if (*letter == 'P') {
        auto encoding = data.fixed<uint8_t>();
        data.pointer(encoding & 15);  // the personality routine is skipped: only its size matters
      }
      if (*letter == 'S') out->signal = true;
    }
    if (!data.ok()) return false;
  } else if (augmentation[0]) {
    return false;
  }
  out->instructions = entry;
  return entry.ok();
}

}  // namespace

bool read_fde(const View& view, uint64_t vaddr, Fde* out) noexcept {
  Reader entry = entry_at(view, vaddr);
  uint64_t place = entry.vaddr();
  auto distance = entry.fixed<uint32_t>();
  if (!entry.ok() || distance == 0 || !read_cie(view, place - distance, &out->cie)) return false;
  out->low = entry.pointer(out->cie.pointer_encoding);
  out->high = out->low + entry.pointer(out->cie.pointer_encoding & 15);
  if (out->cie.augmented) entry.take(entry.uleb());
  out->instructions = entry;
  return entry.ok();
}

uint64_t next_entry(const View& view, uint64_t vaddr) noexcept {
  Reader all(view, vaddr);
  uint64_t length = all.fixed<uint32_t>();
  if (length == 0 || !all.ok()) return 0;
  if (length == 0xffffffff) length = all.fixed<uint64_t>();
  all.take(length);
  return all.ok() && all.left() ? all.vaddr() : 0;
}

}  // namespace aiflame::eh_frame
