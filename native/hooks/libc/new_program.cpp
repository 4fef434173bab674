#include "hooks/libc/new_program.hpp"

#include "base/sys.hpp"
#include "base/text.hpp"
#include "collector.hpp"
#include "spool/known_files.hpp"
#include "spool/life.hpp"
#include "spool/spool.hpp"

#include <elf.h>
#include <fcntl.h>
#include <algorithm>
#include <cstring>

namespace aiflame::hooks {

namespace {

constexpr size_t kHead = 4096;

// Closed at the end of the block that has it.
class File {
 public:
  explicit File(const char* path) noexcept : fd_(sys::call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (!sys::failed(fd_)) sys::call(SYS_close, fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  long fd() const noexcept { return fd_; }

 private:
  long fd_;
};

long read_at(long fd, void* out, size_t bytes, uint64_t offset) noexcept {
  return sys::call(SYS_pread64, fd, reinterpret_cast<long>(out), static_cast<long>(bytes), static_cast<long>(offset));
}

// The access(2) check stands for the whole of PATH search, which skips files that cannot be executed.
bool executable(const char* path) noexcept { return sys::call(SYS_faccessat, AT_FDCWD, reinterpret_cast<long>(path), 1 /* X_OK */) == 0; }

bool join(std::string_view folder, std::string_view file, char* out, size_t room) noexcept {
  if (folder.size() + file.size() + 2 > room) return false;
  memcpy(out, folder.data(), folder.size());
  out += folder.size();
  if (!folder.empty()) *out++ = '/';
  memcpy(out, file.data(), file.size());
  out[file.size()] = 0;
  return true;
}

bool find(const char* file, const char* search, char* out, size_t room) noexcept {
  if (!search || strchr(file, '/')) return join("", file, out, room);
  for (std::string_view rest = search;;) {
    size_t end = std::min(rest.find(':'), rest.size());
    if (join(rest.substr(0, end), file, out, room) && executable(out)) return true;
    if (end == rest.size()) return false;
    rest.remove_prefix(end + 1);
  }
}

constexpr uint16_t kSetUser = 04000, kSetGroup = 02000, kGroupExecutes = 010;

bool status_of(long folder, const char* path, int flags, struct stat* status) noexcept {
  return sys::call(SYS_newfstatat, folder, reinterpret_cast<long>(path), reinterpret_cast<long>(status), flags) == 0;
}

// Real and effective ids that differ make the dynamic linker ignore LD_PRELOAD (AT_SECURE).
bool changes_user(const struct stat& status) noexcept {
  bool user = (status.st_mode & kSetUser) && status.st_uid != static_cast<uint32_t>(sys::call(SYS_getuid));
  bool group = (status.st_mode & kSetGroup) && (status.st_mode & kGroupExecutes) && status.st_gid != static_cast<uint32_t>(sys::call(SYS_getgid));
  return user || group;
}

// The same programs are started again and again: that one needs nothing is found out once.
constexpr uint32_t kPlain = 1;
uint64_t key_of(const struct stat& status) noexcept { return status.st_mode & (kSetUser | kSetGroup) ? 0 : spool::key_of(status, "needs nothing"); }
bool is_known_as_plain(const char* path) noexcept {
  struct stat status{};
  uint64_t key = status_of(AT_FDCWD, path, 0, &status) ? key_of(status) : 0;
  return key && spool::life::recall(key) == kPlain;
}

// Not by substr(): it may throw, which brings half of the C++ library.
std::string_view file_name(std::string_view path) noexcept {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  return path;
}

// The segments of an ELF file whose beginning was read.
class Segments {
 public:
  Segments(const char* head, long bytes) noexcept : head_(head), bytes_(static_cast<uint64_t>(bytes)) {
    if (bytes < static_cast<long>(sizeof elf_)) return;
    memcpy(&elf_, head, sizeof elf_);
    is_elf_ = memcmp(elf_.e_ident, ELFMAG, SELFMAG) == 0 && elf_.e_ident[EI_CLASS] == ELFCLASS64;
  }
  bool is_elf() const noexcept { return is_elf_; }

  // Calls `visit` with each; false where some lie further back than was read.
  template <class Visit>
  bool each(Visit visit) const noexcept {
    for (unsigned at = 0; at < elf_.e_phnum; at++) {
      Elf64_Phdr segment;
      uint64_t offset = elf_.e_phoff + uint64_t{at} * sizeof segment;
      if (offset > bytes_ || sizeof segment > bytes_ - offset) return false;
      memcpy(&segment, head_ + offset, sizeof segment);
      visit(segment);
    }
    return true;
  }

 private:
  const char* head_;
  uint64_t bytes_;
  Elf64_Ehdr elf_{};
  bool is_elf_ = false;
};

}  // namespace

bool is_sanitizer(std::string_view library) noexcept {
  library = file_name(library);
  for (std::string_view runtime : {"libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so", "libubsan.so", "libclang_rt."})
    if (library.starts_with(runtime)) return true;
  return false;
}

NewProgram::NewProgram(const char* file, const char* search) noexcept {
  if (!file || !collector::active() || !find(file, search, path_, sizeof path_) || is_known_as_plain(path_)) return;
  File opened(path_);
  look(opened.fd());
}

NewProgram::NewProgram(int fd) noexcept {
  text::put(path_, "a program that was opened before")[0] = 0;
  if (collector::active()) look(fd);
}

void NewProgram::look(long fd) noexcept {
  if (sys::failed(fd)) return;
  alignas(8) char head[kHead + 1];
  long bytes = read_at(fd, head, kHead, 0);
  if (bytes <= 2) return;
  if (head[0] == '#' && head[1] == '!') {
    head[bytes] = 0;
    return look_at_interpreter(head + 2);
  }
  struct stat status{};
  bool known = status_of(fd, "", AT_EMPTY_PATH, &status);
  if (known && changes_user(status)) {
    obstacle_ = "is set-user-id or set-group-id: the system lets no library into it";
    return;
  }
  Segments segments(head, bytes);
  if (!segments.is_elf()) return;
  bool interpreter = false, linker = file_name(path_).starts_with("ld-linux");
  bool whole = segments.each([&](const Elf64_Phdr& segment) { interpreter |= segment.p_type == PT_INTERP; });
  // The dynamic linker itself may be called to run something.
  if (whole && !interpreter && !linker) obstacle_ = "is statically linked: nothing can be loaded into it";
  if (!interpreter || find_first_library(fd, head, bytes)) return;
  if (uint64_t key = known ? key_of(status) : 0) spool::life::remember(key, kPlain);
}

// A script runs in the program that its first line names.
void NewProgram::look_at_interpreter(const char* line) noexcept {
  while (*line == ' ' || *line == '\t') line++;
  size_t length = 0;
  while (length < kLongestPath && !strchr(" \t\n", line[length])) length++;  // also at the end of the text
  char path[kLongestPath];
  if (length == 0 || length == kLongestPath) return;
  memcpy(path, line, length);
  path[length] = 0;
  File opened(path);
  alignas(8) char head[kHead];
  long bytes = sys::failed(opened.fd()) ? 0 : read_at(opened.fd(), head, sizeof head, 0);
  if (bytes > 0) find_first_library(opened.fd(), head, bytes);
}

// Reads the first two libraries that it needs: compilers put a sanitizer's runtime before all others.
bool NewProgram::find_first_library(long fd, const char* head, long bytes) noexcept {
  Segments segments(head, bytes);
  if (!segments.is_elf()) return false;
  uint64_t dynamic = 0, dynamic_bytes = 0;
  segments.each([&](const Elf64_Phdr& segment) {
    if (segment.p_type != PT_DYNAMIC) return;
    dynamic = segment.p_offset;
    dynamic_bytes = segment.p_filesz;
  });
  Elf64_Dyn entries[48];
  long got = dynamic ? read_at(fd, entries, std::min<uint64_t>(sizeof entries, dynamic_bytes), dynamic) : 0;
  uint64_t needed[2], count = 0, names = 0;
  for (size_t at = 0; got > 0 && at < static_cast<size_t>(got) / sizeof *entries; at++) {
    if (entries[at].d_tag == DT_NEEDED && count < 2) needed[count++] = entries[at].d_un.d_val;
    if (entries[at].d_tag == DT_STRTAB) names = entries[at].d_un.d_ptr;
  }
  uint64_t names_at = 0;
  segments.each([&](const Elf64_Phdr& segment) {
    if (segment.p_type == PT_LOAD && names - segment.p_vaddr < segment.p_filesz) names_at = names - segment.p_vaddr + segment.p_offset;
  });
  for (uint64_t at = 0; names_at && at < count; at++) {
    uint64_t name_at = names_at + needed[at];
    bool in_head = name_at < static_cast<uint64_t>(bytes) && static_cast<uint64_t>(bytes) - name_at >= sizeof name_;
    if (in_head) memcpy(name_, head + name_at, sizeof name_);
    long read = in_head ? static_cast<long>(sizeof name_) : read_at(fd, name_, sizeof name_, name_at);
    size_t length = read > 0 ? strnlen(name_, static_cast<size_t>(read)) : 0;
    if (length == 0 || length == static_cast<size_t>(read) || !is_sanitizer({name_, length})) continue;
    first_ = {name_, length};
    return true;
  }
  return false;
}

void NewProgram::tell_if_unreachable() const noexcept {
  if (!obstacle_) return;
  char line[kLongestPath + 128];
  using text::put;
  char* end = put(put(put(put(line, path_), " "), obstacle_), ", so it was not recorded");
  spool::note({line, static_cast<size_t>(end - line)});
}

}  // namespace aiflame::hooks
