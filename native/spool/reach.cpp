#include "spool/reach.hpp"

#include "base/large.hpp"
#include "base/sys.hpp"
#include "base/text.hpp"
#include "spool/control.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace aiflame::reach {

namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY;  // O_PATH would do for openat(), but not for fchmod()

// A file that is held open: its descriptor, and the data by which we notice that the program has put another file in its place.
class Held {
 public:
  bool valid() const noexcept {
    struct stat status{};
    int fd = fd_.load(std::memory_order_acquire);
    return fd >= 0 && sys::call(SYS_fstat, fd, reinterpret_cast<long>(&status)) == 0 && status.st_dev == device_ && status.st_ino == inode_;
  }
  int fd() const noexcept { return fd_.load(std::memory_order_relaxed); }

  void open(const char* path, int flags) noexcept {
    long low = sys::call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), flags | O_CLOEXEC | O_NOFOLLOW);
    if (sys::failed(low)) return;
    hold(sys::call(SYS_fcntl, low, F_DUPFD, lowest()));
    sys::call(SYS_close, low);
  }

  void hold(long fd) noexcept {
    struct stat status{};
    if (sys::failed(fd) || sys::call(SYS_fstat, fd, reinterpret_cast<long>(&status)) != 0) return;
    device_ = status.st_dev;
    inode_ = status.st_ino;
    fd_.store(static_cast<int>(fd), std::memory_order_release);
  }

  // Moves a descriptor of this program to a number that does not disturb it; the programs that it starts do not inherit that.
  void move() noexcept {
    if (!valid()) return;
    long high = sys::call(SYS_fcntl, fd(), F_DUPFD_CLOEXEC, lowest());
    sys::call(SYS_close, fd());
    fd_.store(static_cast<int>(sys::failed(high) ? -1 : high), std::memory_order_release);
  }

  // The file that is there now belongs to another recording.
  void let_go() noexcept {
    if (valid()) sys::call(SYS_close, fd());
    fd_.store(-1, std::memory_order_relaxed);
  }

  // Takes an inherited descriptor if it is the same file.
  void inherit(uint32_t fd, uint64_t device, uint64_t inode) noexcept {
    device_ = device;
    inode_ = inode;
    fd_.store(static_cast<int>(fd), std::memory_order_release);
    if (!valid()) fd_.store(-1, std::memory_order_relaxed);
  }

  char* describe(char* out) const noexcept {
    using text::put;
    return put(put(put(put(put(out, static_cast<uint32_t>(fd())), ":"), device_), ":"), inode_);
  }

 private:
  // High enough not to disturb programs that expect small numbers; the table of descriptors then has 512 places.
  static long lowest() noexcept {
    rlimit limit{};
    sys::call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, reinterpret_cast<long>(&limit));
    constexpr rlim_t kWanted = 480, kRoom = 16;
    return static_cast<long>(limit.rlim_cur >= kWanted + kRoom ? kWanted : limit.rlim_cur / 2);
  }

  std::atomic<int> fd_{-1};
  uint64_t device_ = 0, inode_ = 0;
};

constexpr size_t kLongestPath = 400;  // as control::attach() takes them

constinit Held control_page, spools, library, cubins, python;
constinit std::atomic<bool> received{false};  // no path leads to the profile
// The profile whose control page and spools are held: another recording may begin in this process, or be named by the environment.
constinit char held_profile[kLongestPath];
constinit std::atomic<bool> changed{false};

void hold_for(const char* profile) noexcept {
  if (strlen(profile) < sizeof held_profile) strcpy(held_profile, profile);
}

// PROFILE/REST
class Path {
 public:
  Path(const char* profile, const char* rest) noexcept {
    using text::put;
    *put(put(put(text_, profile), "/"), rest) = 0;
  }
  Path(const char* profile, const char* folder, const char* rest) noexcept {
    using text::put;
    *put(put(put(put(put(text_, profile), "/"), folder), "/"), rest) = 0;
  }
  const char* text() const noexcept { return text_; }

 private:
  char text_[640];
};

// One number of AIFLAME_DESCRIPTORS, with its file.
bool next_number(const char** at, char end, uint64_t* out) noexcept {
  uint64_t value = 0;
  const char* digit = *at;
  for (; *digit >= '0' && *digit <= '9'; digit++) value = value * 10 + static_cast<uint64_t>(*digit - '0');
  if (digit == *at || *digit != end) return false;
  *at = digit + (end != 0);
  *out = value;
  return true;
}

bool inherit_one(Held& held, const char** at, char end) noexcept {
  uint64_t fd, device, inode;
  if (!next_number(at, ':', &fd) || !next_number(at, ':', &device) || !next_number(at, end, &inode)) return false;
  held.inherit(static_cast<uint32_t>(fd), device, inode);
  return true;
}

}  // namespace

void keep(const char* library_file) noexcept {
  static std::atomic<bool> busy{false};
  if (busy.exchange(true)) return;
  const char* profile = control::profile_path();
  hold_for(profile);
  if (!control_page.valid()) control_page.open(Path(profile, "control").text(), O_RDWR);
  if (!spools.valid()) spools.open(Path(profile, "spool").text(), kFolder);
  if (!library.valid()) library.open(library_file, O_RDONLY);
  changed.store(true);
  busy.store(false);
}

void inherit(const char* variable, const char* profile) noexcept {
  if (!variable || !profile || strlen(profile) >= kLongestPath) return;
  const char* named = strchr(variable, '/');
  if (!named || strcmp(named, profile) != 0) return;
  changed.store(true);
  hold_for(profile);
  inherit_one(control_page, &variable, ',') && inherit_one(spools, &variable, ',') && inherit_one(library, &variable, ',');
}

const char* receive(const char* where) noexcept {
  const char* profile = strchr(where, '/');
  received.store(false);
  if (!profile || strlen(profile) >= kLongestPath) return nullptr;
  if (profile == where) return profile;
  for (Held* held : {&control_page, &spools, &cubins, &python, &library}) {
    held->let_go();
    if (!inherit_one(*held, &where, ',')) return nullptr;
  }
  library.let_go();
  for (Held* held : {&control_page, &spools, &cubins, &python}) held->move();
  hold_for(profile);
  received.store(true);
  changed.store(true);
  return profile;
}

void leave() noexcept {
  if (!received.load()) return;
  for (Held* held : {&control_page, &spools, &cubins, &python}) held->let_go();
}

int device_code() noexcept { return received.load() ? cubins.fd() : -1; }

const char* python_path() noexcept {
  static char text[32];
  if (!received.load() || !python.valid()) return nullptr;
  using text::put;
  *put(put(text, "/proc/self/fd/"), static_cast<uint32_t>(python.fd())) = 0;
  return text;
}

bool needed() noexcept { return changed.load(std::memory_order_relaxed); }

const char* variable() noexcept {
  AIFLAME_LARGE static char text[256 + kLongestPath];
  if (!needed() || !control_page.valid() || !spools.valid() || !library.valid()) return nullptr;
  // Threads that do this at the same time write the same values.
  using text::put;
  char* at = control_page.describe(put(text, "AIFLAME_DESCRIPTORS="));
  at = spools.describe(put(at, ","));
  at = library.describe(put(at, ","));
  *put(put(at, ","), held_profile) = 0;
  return text;
}

const char* library_path() noexcept {
  static char text[32];
  if (!needed() || !library.valid()) return nullptr;
  using text::put;
  *put(put(text, "/proc/self/fd/"), static_cast<uint32_t>(library.fd())) = 0;
  return text;
}

long open_control(const char* profile, int flags) noexcept {
  if (needed() && strcmp(held_profile, profile) != 0) {
    control_page.let_go();
    spools.let_go();
    received.store(false);
  }
  if (received.load() && !control_page.valid()) return -EBADF;
  if (control_page.valid()) return sys::call(SYS_fcntl, control_page.fd(), F_DUPFD_CLOEXEC, 0);
  return sys::call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(Path(profile, "control").text()), flags | O_CLOEXEC | O_NOFOLLOW);
}

long open_in_spool(const char* path, int flags) noexcept {
  constexpr long kMode = 0600;
  flags |= O_CLOEXEC | O_NOFOLLOW;
  if (needed() && spools.valid()) return sys::call(SYS_openat, spools.fd(), reinterpret_cast<long>(path), flags, kMode);
  if (received.load()) return -EBADF;  // the program has closed it
  return sys::call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(Path(control::profile_path(), "spool", path).text()), flags, kMode);
}

long make_folder(const char* name) noexcept {
  constexpr long kMode = 0700;
  if (needed() && spools.valid()) return sys::call(SYS_mkdirat, spools.fd(), reinterpret_cast<long>(name), kMode);
  if (received.load()) return -EBADF;
  return sys::call(SYS_mkdirat, AT_FDCWD, reinterpret_cast<long>(Path(control::profile_path(), "spool", name).text()), kMode);
}

void give_folder(const char* name, uint32_t user) noexcept {
  if (!spools.valid()) return;
  constexpr long kOthersMakeFolders = 01733;
  sys::call(SYS_fchmod, spools.fd(), kOthersMakeFolders);
  sys::call(SYS_fchownat, spools.fd(), reinterpret_cast<long>(name), user, -1, AT_SYMLINK_NOFOLLOW);
}

void give_file(const char* path, uint32_t user) noexcept {
  if (spools.valid()) sys::call(SYS_fchownat, spools.fd(), reinterpret_cast<long>(path), user, -1, AT_SYMLINK_NOFOLLOW);
}

}  // namespace aiflame::reach
