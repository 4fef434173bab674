#include "hooks/libc/child_environment.hpp"

#include "base/large.hpp"
#include "base/own_library.hpp"
#include "base/sys.hpp"
#include "collector.hpp"
#include "hooks/libc/new_program.hpp"
#include "hooks/shared/exported.hpp"
#include "spool/control.hpp"
#include "spool/reach.hpp"
#include "spool/spool.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace aiflame::hooks {

namespace {

// The variables that carry a recording from a program to its children. A value that a child's environment sets differently stays, except for the
// preload list, which we join.
constexpr char kCarried[][24] = {"AIFLAME_PROFILE", "LD_PRELOAD",         "INTEL_JIT_PROFILER64",  "CUDA_INJECTION64_PATH",
                                 "OPENCL_LAYERS",   "OMP_TOOL_LIBRARIES", "NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"};
constexpr size_t kProfile = 0, kPreload = 1;
std::string_view carried(size_t which) noexcept { return kCarried[which]; }

// NAME=value as we were started, one behind the other; nullptr when it was not set.
constinit char* entries[std::size(kCarried)] = {};
constexpr size_t kLongestEntry = 1024;
char few_entries[1024];
AIFLAME_LARGE char many_entries[std::size(kCarried) * kLongestEntry];

// Linux takes a null environment for an empty one.
char* const kNothing = nullptr;

constinit std::string_view library;
uint32_t first_pid = 0;

thread_local void* block;
thread_local size_t block_bytes;

bool names(const char* entry, std::string_view name) noexcept {
  size_t at = 0;  // a call of strncmp() would take most processes a page of libc
  while (at < name.size() && entry[at] == name[at]) at++;
  return at == name.size() && entry[at] == '=';
}

const char* find(char* const* environment, std::string_view name) noexcept {
  for (; *environment; environment++)
    if (names(*environment, name)) return *environment;
  return nullptr;
}

// The libraries that we put in front of ours for the program that runs now: its children need not have them. "" where there are none.
constexpr std::string_view kFirst = "AIFLAME_PRELOADED_FIRST";

// The descriptors by which a process reaches the profile where paths do not (spool/reach).
constexpr std::string_view kDescriptors = "AIFLAME_DESCRIPTORS";

std::string_view value(const char* entry, std::string_view name) noexcept { return entry ? entry + name.size() + 1 : ""; }

// A list for LD_PRELOAD, library by library. The dynamic linker takes colons and spaces.
class Libraries {
 public:
  explicit Libraries(std::string_view list) noexcept : rest_(list) {}
  bool next(std::string_view* entry) noexcept {
    while (!rest_.empty()) {
      size_t end = std::min(rest_.find_first_of(": "), rest_.size());
      *entry = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      if (!entry->empty()) return true;
    }
    return false;
  }

 private:
  std::string_view rest_;
};

bool lists(std::string_view list, std::string_view wanted) noexcept {
  Libraries libraries(list);
  for (std::string_view entry; libraries.next(&entry);)
    if (entry == wanted) return true;
  return false;
}

char* append(char* at, std::string_view text) noexcept {
  memcpy(at, text.data(), text.size());
  return at + text.size();
}

bool opens(const char* path) noexcept {
  long fd = sys::call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC);
  if (!sys::failed(fd)) sys::call(SYS_close, fd);
  return !sys::failed(fd);
}

// Paths of the libraries that we need (on a system before glibc 2.34 the last two as well). A program that we are preloaded into would end without
// one of them.
AIFLAME_LARGE constinit struct {
  char path[256];
} needed_libraries[3];

void remember_needed_libraries() noexcept {
  if (needed_libraries[0].path[0]) return;
  size_t count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* loaded, size_t, void* pointer) {
        auto& filled = *static_cast<size_t*>(pointer);
        std::string_view path = loaded->dlpi_name ? loaded->dlpi_name : "";
        for (std::string_view name : {"/libc.so.6", "/libdl.so.2", "/libpthread.so.0"})
          if (path.ends_with(name) && filled < std::size(needed_libraries) && path.size() < sizeof needed_libraries->path)
            strcpy(needed_libraries[filled++].path, loaded->dlpi_name);
        return 0;
      },
      &count);
}

bool finds_needed_libraries() noexcept {
  for (const auto& needed : needed_libraries)
    if (needed.path[0] && !opens(needed.path)) return false;
  return true;
}

bool reaches_profile() noexcept {
  if (reach::variable()) return true;
  long fd = reach::open_control(control::profile_path(), O_RDWR);
  if (!sys::failed(fd)) sys::call(SYS_close, fd);
  return !sys::failed(fd);
}

// The path at which a new program finds our library; empty where it cannot find it, or would not reach the profile. The dynamic linker
// complains of a library that it does not find.
std::string_view library_for_new_program() noexcept {
  if (!reach::needed()) return library;
  if (reaches_profile() && finds_needed_libraries()) {
    if (opens(library.data())) return library;
    const char* path = reach::library_path();
    if (path && opens(path)) return path;
  }
  spool::note("programs were started as another user or below another root folder, where they cannot reach the profile: they were not recorded");
  return {};
}

// Another library of ours, beside this one: where this one is not found, that is not either.
bool lies_beside_us(std::string_view entry) noexcept {
  size_t folder = library.rfind('/') + 1;
  return folder && entry.starts_with(library.substr(0, folder)) && entry.find('/', folder) == entry.npos;
}

}  // namespace

const char* ChildEnvironment::before_paths_change() noexcept {
  remember_needed_libraries();
  return library.data() ? library.data() : "";
}

void ChildEnvironment::remember() noexcept {
  first_pid = own_process_id();
  if (!environ) return;
  char *at = few_entries, *end = std::end(few_entries);
  for (size_t which = 0; which < std::size(kCarried); which++) {
    const char* entry = find(environ, carried(which));
    size_t bytes = entry ? strlen(entry) + 1 : 0;
    if (!entry || bytes > kLongestEntry) continue;
    if (bytes > static_cast<size_t>(end - at)) {
      at = many_entries;
      end = std::end(many_entries);
    }
    entries[which] = static_cast<char*>(memcpy(at, entry, bytes));
    at += bytes;
  }
  if (collector::preloaded() && own_library()) library = own_library()->l_name;
  if (find(environ, kDescriptors)) remember_needed_libraries();
}

ChildEnvironment::ChildEnvironment(char* const* environment, bool child, std::string_view first) noexcept
    : environment_(environment ? environment : &kNothing), first_(first), change_(Change::NONE) {
  if (library.empty() || !entries[kProfile]) return;
  bool follow = control::has(schema::Feature::CHILDREN) || !(child || sys::process_id() != first_pid);
  while (environment_[count_]) count_++;
  if (!follow) {
    if (find(environment_, carried(kProfile))) change_ = Change::REMOVE_US;
  } else {
    library_ = library_for_new_program();
    if (library_.empty()) first_ = {};
    if (reach::needed()) change_ = Change::ADD_US;
    for (size_t which = 0; which < std::size(kCarried); which++)
      if (entries[which] && !find(environment_, carried(which))) change_ = Change::ADD_US;
    std::string_view preload = value(find(environment_, carried(kPreload)), carried(kPreload));
    if (!lists(preload, library_) || value(find(environment_, kFirst), kFirst) != first_) change_ = Change::ADD_US;
    if (change_ == Change::ADD_US) bytes_ = carried(kPreload).size() + preload.size() + library_.size() + kFirst.size() + 2 * first_.size() + 8;
  }
  if (change_ != Change::NONE) bytes_ += (count_ + std::size(kCarried) + 3) * sizeof(char*);
}

void* ChildEnvironment::large() const noexcept {
  if (block_bytes < bytes_) {
    sys::unmap_memory(block, block_bytes);
    block = sys::map_memory(bytes_);
    block_bytes = block ? bytes_ : 0;
  }
  return block;
}

void* ChildEnvironment::build(void* memory) const noexcept {
  if (change_ == Change::NONE || !memory) return const_cast<char**>(environment_);
  auto** out = static_cast<char**>(memory);
  size_t filled = 0;
  for (size_t at = 0; at < count_; at++) {
    const char* entry = environment_[at];
    bool ours = change_ == Change::REMOVE_US ? names(entry, carried(kProfile))
                                             : names(entry, carried(kPreload)) || names(entry, kFirst) || names(entry, kDescriptors);
    if (!ours) out[filled++] = environment_[at];
  }
  if (change_ == Change::ADD_US) {
    for (size_t which = 0; which < std::size(kCarried); which++)
      if (which != kPreload && entries[which] && !find(environment_, carried(which))) out[filled++] = entries[which];
    if (const char* descriptors = reach::variable(); descriptors && !library_.empty()) out[filled++] = const_cast<char*>(descriptors);
    char* text = reinterpret_cast<char*>(out + count_ + std::size(kCarried) + 3);
    out[filled] = text;
    text = write_preload(text);
    filled += out[filled][carried(kPreload).size() + 1] != 0;
    if (!first_.empty()) {
      out[filled++] = text;
      *append(append(append(text, kFirst), "="), first_) = 0;
    }
  }
  out[filled] = nullptr;
  return out;
}

// The libraries that must come first, other such libraries, ours where it is not listed, and the others as they were. Without ours and
// those beside it where the new program would not find them there.
char* ChildEnvironment::write_preload(char* at) const noexcept {
  std::string_view theirs = value(find(environment_, carried(kPreload)), carried(kPreload));
  std::string_view added = value(find(environment_, kFirst), kFirst);
  bool elsewhere = library_ != library, listed = library_.empty() || lists(theirs, library_), any = false;
  auto put = [&](std::string_view entry) {
    if (any) *at++ = ':';
    at = append(at, entry);
    any = true;
  };
  at = append(append(at, carried(kPreload)), "=");
  if (!first_.empty()) put(first_);
  Libraries libraries(theirs);
  for (std::string_view entry; libraries.next(&entry);) {
    if (elsewhere && lies_beside_us(entry)) continue;
    if (!listed && !is_sanitizer(entry)) {
      put(library_);
      listed = true;
    }
    if (!added.empty() && entry == added)
      added = "";
    else
      put(entry);
  }
  if (!listed) put(library_);
  *at++ = 0;
  return at;
}

}  // namespace aiflame::hooks
