// Reads the encoding of `.eh_frame`: numbers, pointers, and its two kinds of entries (CIE: shared by functions, FDE: one for each function).
#pragma once
#include "base/assertion.hpp"

#include <cstdint>
#include <cstring>

namespace aiflame::eh_frame {

// Bytes of a file, and the vaddr where they belong.
struct View {
  const uint8_t* bytes;
  uint64_t vaddr, length;
};

// Reads forward and never past the end: missing bytes read as 0, and ok() turns false.
class Reader {
 public:
  Reader() = default;
  // Reads `view` from `vaddr` on; nothing if that is outside.
  Reader(const View& view, uint64_t vaddr) noexcept {
    uint64_t offset = vaddr - view.vaddr;
    ok_ = offset <= view.length;
    if (!ok_) return;
    at_ = view.bytes + offset;
    end_ = view.bytes + view.length;
    vaddr_ = vaddr;
  }

  template <class Number>
  Number fixed() noexcept {
    Number value{};
    if (left() < sizeof value) return fail(), Number{};
    memcpy(&value, at_, sizeof value);
    skip(sizeof value);
    return value;
  }

  uint64_t uleb() noexcept {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      auto byte = fixed<uint8_t>();
      if (shift < 64) value |= static_cast<uint64_t>(byte & 127) << shift;
      if (!(byte & 128)) return value;
    }
  }

  int64_t sleb() noexcept {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
      auto byte = fixed<uint8_t>();
      if (shift < 64) value |= static_cast<uint64_t>(byte & 127) << shift;
      shift += 7;
      if (byte & 128) continue;
      if ((byte & 64) && shift < 64) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
  }

  // A pointer as DW_EH_PE_* encodes it: absolute or relative to its own place; other bases do not occur in executables.
  uint64_t pointer(uint8_t encoding) noexcept {
    uint64_t place = vaddr_, value = 0;
    switch (encoding & 15) {
      case 0x0:
      case 0x4:
      case 0xc:
        value = fixed<uint64_t>();
        break;
      case 0x1:
        value = uleb();
        break;
      case 0x2:
        value = fixed<uint16_t>();
        break;
      case 0x3:
        value = fixed<uint32_t>();
        break;
      case 0x9:
        value = static_cast<uint64_t>(sleb());
        break;
      case 0xa:
        value = static_cast<uint64_t>(static_cast<int64_t>(fixed<int16_t>()));
        break;
      case 0xb:
        value = static_cast<uint64_t>(static_cast<int64_t>(fixed<int32_t>()));
        break;
      default:
        fail();
    }
    switch (encoding & 0x70) {
      case 0x00:
        return value;
      case 0x10:
        return value + place;
      default:
        fail();
        return 0;
    }
  }

  // The next `length` bytes as a reader of their own.
  Reader take(uint64_t length) noexcept {
    Reader part = *this;
    if (length > left()) {
      fail();
      part.fail();
    } else {
      part.end_ = at_ + length;
      skip(length);
    }
    return part;
  }

  const uint8_t* at() const noexcept { return at_; }
  uint64_t vaddr() const noexcept { return vaddr_; }
  uint64_t left() const noexcept { return static_cast<uint64_t>(end_ - at_); }
  bool ok() const noexcept { return ok_; }

 private:
  void skip(uint64_t bytes) noexcept {
    AIFLAME_ASSERT(bytes <= left());
    at_ += bytes;
    vaddr_ += bytes;
  }
  void fail() noexcept {
    ok_ = false;
    at_ = end_;
  }

  const uint8_t *at_ = nullptr, *end_ = nullptr;
  uint64_t vaddr_ = 0;
  bool ok_ = true;
};

struct Cie {
  uint64_t code_factor;
  int64_t data_factor;
  uint8_t pointer_encoding;
  bool signal;     // its functions are the kernel's signal trampolines
  bool augmented;  // FDEs have a length of extra data
  Reader instructions;
};

struct Fde {
  uint64_t low, high;  // vaddrs of the function
  Cie cie;
  Reader instructions;
};

// The FDE at `vaddr`. False: not one, or not well-formed.
bool read_fde(const View& view, uint64_t vaddr, Fde* out) noexcept;

// Where the entry after the one at `vaddr` starts; 0 at the end of the section.
uint64_t next_entry(const View& view, uint64_t vaddr) noexcept;

}  // namespace aiflame::eh_frame
