#include "unwind/modules_views.hpp"

#include "base/large.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace aiflame::modules {

namespace {

constexpr std::string_view kVdso = "[vdso]";
constexpr std::string_view kDeleted = " (deleted)";

// Files that only stand for memory: code in them was generated at run time, unless it is a whole ELF image.
bool is_memory(const Mapping& mapping) noexcept {
  return mapping.path.starts_with("/memfd:") || mapping.path.starts_with("/dev/") || mapping.path.starts_with("/SYSV") ||
         mapping.path.starts_with("/anon_hugepage");
}

// A tick may run on a stack of a few KB, so large buffers are static: there is one writer at a time.
AIFLAME_LARGE char name[MapsReader::kLine];
AIFLAME_LARGE char mapped[1024], stored[sizeof mapped];

class OpenFile {
 public:
  explicit OpenFile(std::string_view path) noexcept {
    if (path.size() >= sizeof name || path.ends_with(kDeleted)) return;
    memcpy(name, path.data(), path.size());
    name[path.size()] = 0;
    // O_NONBLOCK: opening must not wait, even if another kind of file lies at that path now.
    fd_ = sys::call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(name), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (ok() && (sys::failed(sys::call(SYS_fstat, fd_, reinterpret_cast<long>(&status_))) || !S_ISREG(status_.st_mode))) close();
  }
  ~OpenFile() { close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  bool ok() const noexcept { return fd_ >= 0; }
  long fd() const noexcept { return fd_; }
  uint64_t size() const noexcept { return static_cast<uint64_t>(status_.st_size); }
  int64_t modified_ns() const noexcept { return status_.st_mtim.tv_sec * 1'000'000'000 + status_.st_mtim.tv_nsec; }

  // Whether the mapping belongs to this file. On overlayfs and btrfs, stat() reports another device than the map: there the first bytes (headers,
  // sizes, usually the build-id) must be equal.
  bool is(const Mapping& mapping, uint64_t image) const noexcept {
    if (status_.st_ino == mapping.inode && status_.st_dev == mapping.device) return true;
    if (!image || copy_memory(image, mapped, sizeof mapped) != sizeof mapped) return false;
    long got = sys::call(SYS_pread64, fd_, reinterpret_cast<long>(stored), sizeof stored, 0);
    return got == sizeof stored && memcmp(mapped, stored, sizeof mapped) == 0;
  }

  // Keeps the inode alive, so that its number is not reused, when no table does.
  void pin() const noexcept { sys::call(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE, fd_, 0); }

 private:
  void close() noexcept {
    if (ok()) sys::call(SYS_close, fd_);
    fd_ = -1;
  }
  long fd_ = -1;
  struct stat status_{};
};

}  // namespace

uint32_t Views::of(const Mapping& mapping, uint64_t image, uint32_t round) noexcept {
  if (mapping.inode == 0 && mapping.path != kVdso) return 0;
  uint32_t* link = &buckets_[mapping.inode % kBuckets];
  for (uint32_t view = *link; view; view = *link) {
    FileView& known = (*this)[view];
    if (known.inode != mapping.inode || known.device != mapping.device) {
      link = &known.next;
      continue;
    }
    bool back = known.round + 1 < round && mapping.inode;
    known.round = round;
    if (!back) return view;
    // The file was unmapped for a while, and may have been rewritten in place.
    OpenFile file(mapping.path);
    if (!file.ok() || (file.size() == known.size && file.modified_ns() == known.modified_ns)) return view;
    *link = known.next;
    break;
  }
  uint32_t view = add(mapping, image);
  if (!view) return 0;
  FileView& added = (*this)[view];
  added.round = round;
  added.next = buckets_[mapping.inode % kBuckets];
  buckets_[mapping.inode % kBuckets] = view;
  return view;
}

uint32_t Views::add(const Mapping& mapping, uint64_t image) noexcept {
  ElfView elf{};
  uint64_t size = 0;
  int64_t modified_ns = 0;
  if (mapping.path == kVdso) {
    view_vdso(mapping.start, &elf);
  } else if (is_memory(mapping)) {
    if (!image || !view_memory(image, &elf)) return 0;
  } else {
    OpenFile file(mapping.path);
    if (file.ok() && file.is(mapping, image)) {
      view_file(file.fd(), &elf);
      if (!elf.tables) file.pin();
      size = file.size();
      modified_ns = file.modified_ns();
    } else if (image) {
      view_memory(image, &elf);
    }
  }
  FileView* view = views_.add();
  if (!view) return 0;
  view->device = mapping.device;
  view->inode = mapping.inode;
  view->size = size;
  view->modified_ns = modified_ns;
  view->elf = elf;
  return views_.size();
}

}  // namespace aiflame::modules
