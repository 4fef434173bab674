#include "sampler/task_list.hpp"

#include "base/text.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <cstring>

namespace aiflame {

namespace {

struct DirectoryEntry {  // linux_dirent64, getdents64(2)
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[];
};

uint32_t number_in(const char* digit) noexcept {
  uint32_t number = 0;
  for (; *digit >= '0' && *digit <= '9'; digit++) number = number * 10 + static_cast<uint32_t>(*digit - '0');
  return number;
}

}  // namespace

TaskList::TaskList() noexcept {
  if (!scratch_.data()) return;
  long fd = sys::call(SYS_openat, AT_FDCWD, reinterpret_cast<long>("/proc/self/task"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (sys::failed(fd)) return;
  // The numbers from the front, the kernel's entries (24 bytes or more each) behind them.
  constexpr size_t kEntries = 64 * 1024;
  auto* tids = reinterpret_cast<uint32_t*>(scratch_.data());
  char* entries = scratch_.data() + scratch_.size() - kEntries;
  size_t room = (scratch_.size() - kEntries) / sizeof *tids;
  long got = 0;
  while (count_ + kEntries / 24 <= room) {
    got = sys::call(SYS_getdents64, fd, reinterpret_cast<long>(entries), kEntries);
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      auto* entry = reinterpret_cast<DirectoryEntry*>(entries + at);
      at += entry->length;
      if (uint32_t tid = number_in(entry->name)) tids[count_++] = tid;
    }
  }
  complete_ = got == 0;
  sys::call(SYS_close, fd);
}

bool is_single_threaded() noexcept {
  // libc's word, since glibc 2.32. (A thread of a raw clone() it does not know; nor do we before a tick.) Looked up when recording begins, not in the
  // handler that an exec may fail in.
  static const auto* single = static_cast<const char*>(dlsym(RTLD_DEFAULT, "__libc_single_threaded"));
  if (single && *single) return true;
  // The kernel counts a link for each thread, beside the folder's own two.
  struct stat folder;
  long result = sys::call(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>("/proc/self/task"), reinterpret_cast<long>(&folder), 0);
  return !sys::failed(result) && folder.st_nlink == 3;
}

long read_task_file(uint32_t tid, const char* file, char* out, size_t room) noexcept {
  char path[64];
  using text::put;
  *put(put(put(put(path, "/proc/self/task/"), tid), "/"), file) = 0;
  return sys::read_file(path, out, room);
}

size_t task_name(uint32_t tid, char* out, size_t room) noexcept {
  if (room >= 16 && tid == sys::thread_id()) {
    long result = sys::call(SYS_prctl, PR_GET_NAME, reinterpret_cast<long>(out));
    return sys::failed(result) ? 0 : strnlen(out, 16);
  }
  long length = read_task_file(tid, "comm", out, room);
  return length <= 0 ? 0 : static_cast<size_t>(length) - (out[length - 1] == '\n');
}

}  // namespace aiflame
