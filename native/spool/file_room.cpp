#include "spool/file_room.hpp"

#include "base/sys.hpp"
#include "spool/reach.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cerrno>

namespace aiflame::file_room {

namespace {

constexpr long kInterrupted = -EINTR;

// Past its own limit (ulimit -f) the kernel would send the program SIGXFSZ, which kills it.
bool within_file_size_limit(uint64_t end) noexcept {
  rlimit limit{};
  long result = sys::call(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, reinterpret_cast<long>(&limit));
  return sys::failed(result) || limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur;
}

// For file systems without fallocate. Appends zeros, so that data stored by another thread meanwhile are never overwritten.
long append_zeros(const char* path, uint64_t end) noexcept {
  static const char zeros[4096] = {};
  long fd = reach::open_in_spool(path, O_WRONLY | O_APPEND);
  long result = fd;
  while (!sys::failed(result)) {
    result = sys::call(SYS_lseek, fd, 0, SEEK_END);
    if (sys::failed(result) || static_cast<uint64_t>(result) >= end) break;
    result = sys::call(SYS_write, fd, reinterpret_cast<long>(zeros), sizeof zeros);
    if (result == kInterrupted) result = 0;
  }
  if (!sys::failed(fd)) sys::call(SYS_close, fd);
  return result < 0 ? result : 0;
}

}  // namespace

long allocate(const char* path, long fd, uint64_t start, uint64_t bytes) noexcept {
  // tmpfs gives up, undoing all, when a signal arrives: pieces small enough to succeed between two ticks of a profiling timer.
  constexpr uint64_t kPiece = 512 * 1024;
  if (!within_file_size_limit(start + bytes)) return -EFBIG;
  for (uint64_t done = 0; done < bytes; done += kPiece) {
    uint64_t piece = bytes - done < kPiece ? bytes - done : kPiece;
    long result = kInterrupted;
    for (int attempt = 0; result == kInterrupted && attempt < 1000; attempt++)
      result = sys::call(SYS_fallocate, fd, 0, static_cast<long>(start + done), static_cast<long>(piece));
    if (result == -EOPNOTSUPP) return append_zeros(path, start + bytes);
    if (sys::failed(result)) return result;
  }
  return 0;
}

}  // namespace aiflame::file_room
