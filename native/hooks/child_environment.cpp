#include "hooks/child_environment.hpp"

#include "base/sys.hpp"
#include "collector.hpp"
#include "hooks/hooks.hpp"
#include "spool/control.hpp"

#include <dlfcn.h>
#include <unistd.h>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace aiflame::hooks {

namespace {

// The variables that carry a recording from a program to its children. One that a child's environment sets differently is left as it
// is, except for the preload list, which we join.
struct Carried {
  std::string_view name;
  char entry[1024];  // NAME=value as we were started; empty when it was not set
};
constinit Carried carried[] = {{"AIFLAME_PROFILE", ""}, {"LD_PRELOAD", ""},         {"INTEL_JIT_PROFILER64", ""},  {"CUDA_INJECTION64_PATH", ""},
                               {"OPENCL_LAYERS", ""},   {"OMP_TOOL_LIBRARIES", ""}, {"NVTX_INJECTION64_PATH", ""}, {"INTEL_LIBITTNOTIFY64", ""}};
constexpr size_t kProfile = 0, kPreload = 1;

// Linux takes a null environment for an empty one.
char* const kNothing = nullptr;

constinit std::string_view library;
uint32_t first_pid = 0;

thread_local void* block;
thread_local size_t block_bytes;

bool names(const char* entry, std::string_view name) noexcept { return strncmp(entry, name.data(), name.size()) == 0 && entry[name.size()] == '='; }

const char* find(char* const* environment, std::string_view name) noexcept {
  for (; *environment; environment++)
    if (names(*environment, name)) return *environment;
  return nullptr;
}

bool lists_us(const char* preload) noexcept {
  std::string_view rest = preload + carried[kPreload].name.size() + 1;
  while (!rest.empty()) {
    size_t end = std::min(rest.find_first_of(": "), rest.size());
    if (rest.substr(0, end) == library) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

char* append(char* at, std::string_view text) noexcept {
  memcpy(at, text.data(), text.size());
  return at + text.size();
}

}  // namespace

void ChildEnvironment::remember() noexcept {
  first_pid = sys::process_id();
  if (!environ) return;
  for (Carried& variable : carried) {
    const char* entry = find(environ, variable.name);
    if (entry && strlen(entry) < sizeof variable.entry) strcpy(variable.entry, entry);
  }
  Dl_info info;
  if (collector::preloaded() && dladdr(reinterpret_cast<void*>(&ChildEnvironment::remember), &info)) library = info.dli_fname;
}

ChildEnvironment::ChildEnvironment(char* const* environment, bool child) noexcept
    : environment_(environment ? environment : &kNothing), change_(Change::NONE) {
  if (library.empty() || !carried[kProfile].entry[0]) return;
  bool follow = control::has(schema::Feature::CHILDREN) || !(child || sys::process_id() != first_pid);
  while (environment_[count_]) count_++;
  if (!follow) {
    if (find(environment_, carried[kProfile].name)) change_ = Change::REMOVE_US;
  } else {
    for (const Carried& variable : carried)
      if (variable.entry[0] && !find(environment_, variable.name)) change_ = Change::ADD_US;
    const char* preload = find(environment_, carried[kPreload].name);
    if (!preload || !lists_us(preload)) change_ = Change::ADD_US;
    if (change_ == Change::ADD_US) bytes_ = (preload ? strlen(preload) : carried[kPreload].name.size()) + library.size() + 3;
  }
  if (change_ != Change::NONE) bytes_ += (count_ + std::size(carried) + 1) * sizeof(char*);
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
    bool ours = names(environment_[at], carried[change_ == Change::REMOVE_US ? kProfile : kPreload].name);
    if (!ours) out[filled++] = environment_[at];
  }
  if (change_ == Change::ADD_US) {
    for (Carried& variable : carried)
      if (&variable != &carried[kPreload] && variable.entry[0] && !find(environment_, variable.name)) out[filled++] = variable.entry;
    const char* preload = find(environment_, carried[kPreload].name);
    if (preload && lists_us(preload)) {
      out[filled++] = const_cast<char*>(preload);
    } else {
      char* joined = reinterpret_cast<char*>(out + count_ + std::size(carried) + 1);
      out[filled++] = joined;
      std::string_view theirs = preload ? preload + carried[kPreload].name.size() + 1 : "";
      joined = append(append(append(joined, carried[kPreload].name), "="), library);
      if (!theirs.empty()) joined = append(append(joined, ":"), theirs);
      *joined = 0;
    }
  }
  out[filled] = nullptr;
  return out;
}

}  // namespace aiflame::hooks
