// A wide string as UTF-8. Values that are no characters become U+FFFD.
#pragma once
#include "base/scratch.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace aiflame {

class WideText {
 public:
  explicit WideText(const wchar_t* text) noexcept {
    if (!text) return;
    size_t length = 0;
    while (text[length]) length++;
    char* out = few_;
    size_t room = sizeof few_;
    if (length * kMostBytes > sizeof few_) {
      scratch_.emplace();
      out = scratch_->data();
      room = scratch_->size();
    }
    size_t filled = 0;
    for (size_t at = 0; at < length && filled + kMostBytes <= room; at++) filled += encode(static_cast<uint32_t>(text[at]), out + filled);
    view_ = {out, filled};
  }

  std::string_view view() const noexcept { return view_; }

 private:
  static constexpr size_t kMostBytes = 4;

  static size_t encode(uint32_t character, char* out) noexcept {
    if (character > 0x10FFFF || (character >= 0xD800 && character < 0xE000)) character = 0xFFFD;
    auto rest = [character](int shift) { return static_cast<char>(0x80 | (character >> shift & 0x3F)); };
    if (character < 0x80) {
      out[0] = static_cast<char>(character);
      return 1;
    }
    if (character < 0x800) {
      out[0] = static_cast<char>(0xC0 | character >> 6);
      out[1] = rest(0);
      return 2;
    }
    if (character < 0x10000) {
      out[0] = static_cast<char>(0xE0 | character >> 12);
      out[1] = rest(6);
      out[2] = rest(0);
      return 3;
    }
    out[0] = static_cast<char>(0xF0 | character >> 18);
    out[1] = rest(12);
    out[2] = rest(6);
    out[3] = rest(0);
    return 4;
  }

  char few_[512];
  std::optional<Scratch> scratch_;
  std::string_view view_;
};

}  // namespace aiflame
