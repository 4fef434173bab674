#include "unwind/modules_maps.hpp"

#include "base/sys.hpp"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <cerrno>
#include <cstring>

namespace aiflame::modules {

MapsReader::MapsReader(char* buffer, size_t bytes) noexcept : buffer_(buffer), bytes_(bytes) {
  file_ = sys::call(SYS_openat, AT_FDCWD, reinterpret_cast<long>("/proc/self/maps"), O_RDONLY | O_CLOEXEC);
}

bool MapsReader::no_descriptor() const noexcept { return file_ == -EMFILE; }

MapsReader::~MapsReader() {
  if (!sys::failed(file_)) sys::call(SYS_close, file_);
}

namespace {

uint64_t take_number(std::string_view& line, unsigned base) noexcept {
  uint64_t value = 0;
  while (!line.empty()) {
    char c = line[0];
    unsigned digit = c >= '0' && c <= '9' ? static_cast<unsigned>(c - '0') : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10 : 16;
    if (digit >= base) break;
    value = value * base + digit;
    line.remove_prefix(1);
  }
  return value;
}

void skip(std::string_view& line, size_t characters) noexcept { line.remove_prefix(line.size() < characters ? line.size() : characters); }

// The kernel writes a newline in a path as \012 and nothing else specially: undone in place.
std::string_view unescape(char* path, size_t length) noexcept {
  size_t out = 0;
  for (size_t at = 0; at < length; at++) {
    if (length - at >= 4 && memcmp(path + at, "\\012", 4) == 0) {
      path[out++] = '\n';
      at += 3;
    } else {
      path[out++] = path[at];
    }
  }
  return {path, out};
}

// "7f0c-7f0d r-xp 00026000 fe:00 339380                     /usr/lib/libc.so.6"
Mapping parse(std::string_view line) noexcept {
  Mapping map{};
  map.start = take_number(line, 16);
  skip(line, 1);
  map.end = take_number(line, 16);
  skip(line, 1);
  map.executable = line.size() > 2 && line[2] == 'x';
  skip(line, 5);
  map.offset = take_number(line, 16);
  skip(line, 1);
  auto major = static_cast<unsigned>(take_number(line, 16));
  skip(line, 1);
  auto minor = static_cast<unsigned>(take_number(line, 16));
  map.device = makedev(major, minor);
  skip(line, 1);
  map.inode = take_number(line, 10);
  while (!line.empty() && line[0] == ' ') skip(line, 1);
  map.path = unescape(const_cast<char*>(line.data()), line.size());
  return map;
}

}  // namespace

bool MapsReader::next(Mapping* out) noexcept {
  for (;;) {
    auto* newline = static_cast<char*>(memchr(buffer_ + begin_, '\n', end_ - begin_));
    if (newline) {
      char* line = buffer_ + begin_;
      begin_ = static_cast<size_t>(newline - buffer_) + 1;
      *out = parse({line, static_cast<size_t>(newline - line)});
      return true;
    }
    if (!fill()) return false;
  }
}

bool MapsReader::fill() noexcept {
  if (sys::failed(file_)) return false;
  memmove(buffer_, buffer_ + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == bytes_) return false;
  long got;
  do {
    got = sys::call(SYS_read, file_, reinterpret_cast<long>(buffer_ + end_), static_cast<long>(bytes_ - end_));
  } while (got == -4 /* EINTR */);
  whole_ = got == 0;
  if (got <= 0) return false;
  end_ += static_cast<size_t>(got);
  return true;
}

}  // namespace aiflame::modules
