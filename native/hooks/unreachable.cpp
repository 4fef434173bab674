#include "hooks/unreachable.hpp"

#include "base/sys.hpp"
#include "collector.hpp"
#include "spool/spool.hpp"

#include <elf.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <algorithm>
#include <cstdio>
#include <cstring>

namespace aiflame::hooks {

namespace {

constexpr size_t kLongestPath = 1024;

// The access(2) check stands for the whole of PATH search: what cannot be executed is passed over.
bool executable(const char* path) noexcept { return sys::call(SYS_faccessat, AT_FDCWD, reinterpret_cast<long>(path), 1 /* X_OK */) == 0; }

bool find(const char* file, const char* search, char* out) noexcept {
  if (!search || strchr(file, '/')) return snprintf(out, kLongestPath, "%s", file) < static_cast<int>(kLongestPath);
  for (const char* folder = search;; folder++) {
    const char* end = strchrnul(folder, ':');
    int length = snprintf(out, kLongestPath, "%.*s%s%s", static_cast<int>(end - folder), folder, end == folder ? "" : "/", file);
    if (length < static_cast<int>(kLongestPath) && executable(out)) return true;
    if (!*end) return false;
    folder = end;
  }
}

// Real and effective ids that differ make the dynamic linker ignore LD_PRELOAD (AT_SECURE).
bool changes_user(const char* path) noexcept {
  struct statx status{};
  if (sys::call(SYS_statx, AT_FDCWD, reinterpret_cast<long>(path), 0, STATX_MODE | STATX_UID | STATX_GID, reinterpret_cast<long>(&status)) != 0)
    return false;
  constexpr uint16_t kSetUser = 04000, kSetGroup = 02000, kGroupExecutes = 010;
  bool user = (status.stx_mode & kSetUser) && status.stx_uid != static_cast<uint32_t>(sys::call(SYS_getuid));
  bool group = (status.stx_mode & kSetGroup) && (status.stx_mode & kGroupExecutes) && status.stx_gid != static_cast<uint32_t>(sys::call(SYS_getgid));
  return user || group;
}

bool statically_linked(const char* path) noexcept {
  const char* slash = strrchr(path, '/');
  if (strncmp(slash ? slash + 1 : path, "ld-linux", 8) == 0) return false;  // the dynamic linker itself, called to run something
  alignas(8) char head[4096];
  long length = sys::read_file(path, head, sizeof head);
  Elf64_Ehdr elf;
  if (length < static_cast<long>(sizeof elf)) return false;
  memcpy(&elf, head, sizeof elf);
  if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64) return false;
  for (unsigned at = 0; at < elf.e_phnum; at++) {
    Elf64_Phdr segment;
    uint64_t offset = elf.e_phoff + uint64_t{at} * sizeof segment;
    if (offset + sizeof segment > static_cast<uint64_t>(length)) return false;  // too far to tell
    memcpy(&segment, head + offset, sizeof segment);
    if (segment.p_type == PT_INTERP) return false;
  }
  return true;
}

}  // namespace

void tell_if_unreachable(const char* file, const char* search) noexcept {
  if (!file || !collector::active()) return;
  char path[kLongestPath];
  if (!find(file, search, path)) return;
  const char* why = changes_user(path)        ? "is set-user-id or set-group-id: the system lets no library into it"
                    : statically_linked(path) ? "is statically linked: nothing can be loaded into it"
                                              : nullptr;
  if (!why) return;
  char line[kLongestPath + 128];
  int length = snprintf(line, sizeof line, "%s %s, so it was not recorded", path, why);
  spool::note({line, std::min(static_cast<size_t>(length), sizeof line - 1)});
}

}  // namespace aiflame::hooks
