#include "hooks/libc/identity.hpp"

#include "base/sys.hpp"
#include "collector.hpp"
#include "hooks/libc/child_environment.hpp"
#include "hooks/libc/resolve.hpp"
#include "hooks/shared/exported.hpp"
#include "spool/reach.hpp"
#include "spool/spool.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>

namespace aiflame::hooks {

namespace {

Real<int(uid_t), "setuid"> real_setuid;
Real<int(uid_t), "seteuid"> real_seteuid;
Real<int(uid_t, uid_t), "setreuid"> real_setreuid;
Real<int(uid_t, uid_t, uid_t), "setresuid"> real_setresuid;
Real<int(const char*), "chroot"> real_chroot;
Real<int(int), "unshare"> real_unshare;
Real<int(int, int), "setns"> real_setns;

constexpr uint32_t kUnchanged = ~0u;
constexpr int kNamespaces = CLONE_NEWNS | CLONE_NEWUSER;

[[gnu::noinline, gnu::cold]] void keep_descriptors() noexcept {
  if (!own_process() || !collector::active()) return;
  int error = errno;
  if (!reach::variable()) {
    reach::keep(ChildEnvironment::before_paths_change());
    spool::map_ahead();
  }
  errno = error;
}

// The process is about to act as another user, who may not open root's files.
[[gnu::noinline, gnu::cold]] void become(uint32_t user) noexcept {
  if (user == kUnchanged || user == 0 || sys::call(SYS_geteuid) != 0) return;
  keep_descriptors();
  if (own_process() && collector::active()) spool::give_to(user);
}

}  // namespace

void resolve_identity() noexcept { find_all(real_setuid, real_seteuid, real_setreuid, real_setresuid, real_chroot, real_unshare, real_setns); }

void before_syscall_of_identity(long number, long first, long second) noexcept {
  switch (number) {
    case SYS_setuid:
      return become(static_cast<uint32_t>(first));
    case SYS_setreuid:
    case SYS_setresuid:
      return become(static_cast<uint32_t>(second));
    case SYS_chroot:
    case SYS_pivot_root:
    case SYS_setns:
      return keep_descriptors();
    case SYS_unshare:
    case SYS_clone:
      if (first & kNamespaces) keep_descriptors();
      return;
    default:
      return;
  }
}

}  // namespace aiflame::hooks

using namespace aiflame::hooks;

AIFLAME_EXPORT int setuid(uid_t user) noexcept {
  become(user);
  return real_setuid(user);
}
AIFLAME_EXPORT int seteuid(uid_t user) noexcept {
  become(user);
  return real_seteuid(user);
}
AIFLAME_EXPORT int setreuid(uid_t real, uid_t effective) noexcept {
  become(effective);
  return real_setreuid(real, effective);
}
AIFLAME_EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved) noexcept {
  become(effective);
  return real_setresuid(real, effective, saved);
}
AIFLAME_EXPORT int chroot(const char* path) noexcept {
  keep_descriptors();
  return real_chroot(path);
}
AIFLAME_EXPORT int unshare(int what) noexcept {
  if (what & kNamespaces) keep_descriptors();
  return real_unshare(what);
}
AIFLAME_EXPORT int setns(int fd, int what) noexcept {
  keep_descriptors();
  return real_setns(fd, what);
}
