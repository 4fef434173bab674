// /proc/self/maps, line by line, with raw system calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace aiflame::modules {

struct Mapping {
  uint64_t start, end, offset, device, inode;  // device as in stat()
  bool executable;
  std::string_view path;  // "", or [vdso], [stack] …; valid until the next line is read
};

class MapsReader {
 public:
  // `buffer` holds a piece of the file at a time: at least kLine bytes.
  static constexpr size_t kLine = 8192;
  MapsReader(char* buffer, size_t bytes) noexcept;
  ~MapsReader();
  MapsReader(const MapsReader&) = delete;
  MapsReader& operator=(const MapsReader&) = delete;

  // False at the end, or when the file cannot be read.
  bool next(Mapping* out) noexcept;
  // Whether the file was read to its end without an error.
  bool whole() const noexcept { return whole_; }
  // Whether the program has used all descriptors that it may have.
  bool no_descriptor() const noexcept;

 private:
  bool fill() noexcept;

  char* buffer_;
  size_t bytes_, begin_ = 0, end_ = 0;
  long file_;
  bool whole_ = false;
};

}  // namespace aiflame::modules
