// Values that Python passes to a function of ours. A value of another type or range raises an exception there.
#pragma once
#include "hooks/python/abi.hpp"

#include <string_view>

namespace aiflame::bridge {

// The arguments of a call, by position or by name: the first `required` must be given.
template <size_t N>
class Arguments {
 public:
  Arguments(const char* const (&names)[N], size_t required) noexcept : names_(names), required_(required) {}

  bool bind(const Object* given, intptr_t count, Object keywords) noexcept {
    if (count > static_cast<intptr_t>(N)) return refuse("too many arguments");
    for (intptr_t at = 0; at < count; at++) values_[at] = given[at];
    intptr_t named = keywords ? py.tuple_size(keywords) : 0;
    for (intptr_t at = 0; at < named; at++)
      if (!put(py.utf8(py.tuple_item(keywords, at), nullptr), given[count + at])) return false;
    for (size_t at = 0; at < required_; at++)
      if (!values_[at]) return refuse("an argument is missing");
    return true;
  }

  // nullptr if it was left out.
  Object operator[](size_t at) const noexcept { return values_[at]; }

 private:
  static bool refuse(const char* reason) noexcept {
    py.set_error(*py.type_error, reason);
    return false;
  }

  bool put(const char* name, Object value) noexcept {
    if (!name) return false;
    for (size_t at = 0; at < N; at++)
      if (std::string_view(name) == names_[at]) {
        if (values_[at]) return refuse("an argument is given twice");
        values_[at] = value;
        return true;
      }
    return refuse("an argument has an unknown name");
  }

  const char* const (&names_)[N];
  size_t required_;
  Object values_[N] = {};
};

// The UTF-8 of a str, or the bytes of a bytes object; valid as long as this and the object exist.
class Text {
 public:
  // Nothing (an argument that was left out) is the empty text.
  explicit Text(Object object) noexcept {
    if (!object) return;
    intptr_t length = 0;
    const char* data = nullptr;
    if (py.is_instance(object, py.text_type) == 1) {
      data = py.utf8(object, &length);
      // Lone surrogates have no UTF-8.
      if (!data) {
        py.clear_error();
        encoded_.replace(py.encode(object, "utf-8", "backslashreplace"));
        data = encoded_ ? bytes(encoded_.get(), &length) : nullptr;
      }
    } else if (py.is_instance(object, py.bytes_type) == 1) {
      data = bytes(object, &length);
    } else {
      py.set_error(*py.type_error, "a text is wanted");
    }
    good_ = data != nullptr;
    if (good_) view_ = {data, static_cast<size_t>(length)};
  }

  // False: an exception is set.
  bool good() const noexcept { return good_; }
  std::string_view view() const noexcept { return view_; }

 private:
  static const char* bytes(Object object, intptr_t* length) noexcept {
    char* data = nullptr;
    return py.bytes(object, &data, length) == 0 ? data : nullptr;
  }

  Held encoded_;
  std::string_view view_;
  bool good_ = true;
};

// An integer in `bits` bits, signed or not. False: an exception is set.
inline bool read_number(Object object, unsigned bits, bool is_signed, uint64_t* out) noexcept {
  if (py.is_instance(object, py.number_type) != 1) {
    py.set_error(*py.type_error, "an integer is wanted");
    return false;
  }
  int overflow = 0;
  long long value = py.number(object, &overflow);
  bool negative = overflow < 0 || (overflow == 0 && value < 0);
  if (overflow > 0) {
    *out = py.unsigned_number(object);
    if (*out == ~0ull && py.error())
      py.clear_error();
    else
      overflow = 0;
  } else {
    *out = static_cast<uint64_t>(value);
  }
  bool fits = overflow == 0;
  if (is_signed) {
    auto low = static_cast<int64_t>(*out << (64 - bits)) >> (64 - bits);
    fits = fits && (negative || *out >> 63 == 0) && static_cast<uint64_t>(low) == *out;
  } else {
    fits = fits && !negative && (bits == 64 || *out >> bits == 0);
  }
  if (!fits) py.set_error(*py.value_error, "an integer is out of range");
  return fits;
}

// The same for an argument that may have been left out.
inline bool read_number(Object object, uint64_t otherwise, uint64_t* out) noexcept {
  *out = otherwise;
  return !object || read_number(object, 64, false, out);
}

}  // namespace aiflame::bridge
