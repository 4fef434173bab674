// An array that grows and says when there is no memory. Nothing here throws, so the library needs no C++ runtime.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace aiflame::trace_reader {

template <typename T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { free(data_); }

  // False: no memory, and the array is as before.
  bool reserve(size_t count) noexcept {
    if (count <= room_) return true;
    size_t room = room_ + room_ / 2 > count ? room_ + room_ / 2 : count;
    if (room < 16) room = 16;
    if (room > SIZE_MAX / 2 / sizeof(T)) return false;
    T* data = static_cast<T*>(realloc(static_cast<void*>(data_), room * sizeof(T)));
    if (!data) return false;
    data_ = data;
    room_ = room;
    return true;
  }
  bool push(const T& value) noexcept {
    if (size_ == room_) {
      T kept = value;  // it may lie in this array
      if (!reserve(size_ + 1)) return false;
      data_[size_++] = kept;
      return true;
    }
    data_[size_++] = value;
    return true;
  }
  bool append(const T* from, size_t count) noexcept {
    if (!reserve(size_ + count)) return false;
    if (count) memcpy(static_cast<void*>(data_ + size_), from, count * sizeof(T));
    size_ += count;
    return true;
  }
  // The first `size` values stay as they are; new ones have any value.
  bool resize(size_t size) noexcept {
    if (!reserve(size)) return false;
    size_ = size;
    return true;
  }
  void clear() noexcept { size_ = 0; }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  T& operator[](size_t at) noexcept { return data_[at]; }
  const T& operator[](size_t at) const noexcept { return data_[at]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

// Bytes that lie elsewhere.
struct Span {
  const char* data = nullptr;
  size_t size = 0;

  bool operator==(const Span& other) const noexcept { return size == other.size && (size == 0 || memcmp(data, other.data, size) == 0); }
};

}  // namespace aiflame::trace_reader
