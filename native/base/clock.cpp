#include "base/clock.hpp"

#include "base/sys.hpp"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <atomic>
#include <cstring>

namespace aiflame {

namespace {

using Read = int(clockid_t, timespec*);

int by_system_call(clockid_t clock, timespec* now) noexcept {
  return static_cast<int>(sys::call(SYS_clock_gettime, clock, reinterpret_cast<long>(now)));
}

int find_and_read(clockid_t clock, timespec* now) noexcept;
constinit std::atomic<Read*> read{find_and_read};
constinit std::atomic<bool> left_alone{false};
uint64_t kernel_library = 0;  // where it is mapped

// A function of the library that the kernel maps (vdso(7)), found in its symbol table: the section headers are not mapped everywhere.
class KernelLibrary {
 public:
  explicit KernelLibrary(uint64_t image) noexcept : image_(image) {
    auto* header = reinterpret_cast<const ElfW(Ehdr)*>(image);
    auto* segments = reinterpret_cast<const ElfW(Phdr)*>(image + header->e_phoff);
    const ElfW(Dyn)* dynamic = nullptr;
    for (unsigned at = 0; at < header->e_phnum; at++) {
      if (segments[at].p_type == PT_LOAD && !bias_) bias_ = image + segments[at].p_offset - segments[at].p_vaddr;
      if (segments[at].p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(image + segments[at].p_offset);
    }
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
      if (dynamic->d_tag == DT_SYMTAB) symbols_ = reinterpret_cast<const ElfW(Sym)*>(bias_ + dynamic->d_un.d_ptr);
      if (dynamic->d_tag == DT_STRTAB) names_ = reinterpret_cast<const char*>(bias_ + dynamic->d_un.d_ptr);
      // The string table follows the symbols in every vdso, and its hash table may have either format.
    }
  }

  void* function(const char* name) const noexcept {
    if (!symbols_ || !names_) return nullptr;
    for (auto* symbol = symbols_ + 1; reinterpret_cast<const char*>(symbol + 1) <= names_; symbol++)
      if (symbol->st_shndx != SHN_UNDEF && strcmp(names_ + symbol->st_name, name) == 0) return reinterpret_cast<void*>(bias_ + symbol->st_value);
    return nullptr;
  }

 private:
  uint64_t image_, bias_ = 0;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
};

// Runs once, perhaps in a handler. If the kernel has no such function, the clock is read by a system call.
int find_and_read(clockid_t clock, timespec* now) noexcept {
  auto* function = kernel_library ? reinterpret_cast<Read*>(KernelLibrary(kernel_library).function("__vdso_clock_gettime")) : nullptr;
  Read *unknown = find_and_read, *chosen = function ? function : by_system_call;
  if (!read.compare_exchange_strong(unknown, chosen, std::memory_order_relaxed)) chosen = unknown;
  return chosen(clock, now);
}

uint64_t nanoseconds(const timespec& time) noexcept {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

// getauxval() sets errno when there is no value: thread-local memory, which a thread interrupted by a tick may not have.
void remember_clock() noexcept { kernel_library = getauxval(AT_SYSINFO_EHDR); }

void leave_clock_alone() noexcept {
  left_alone.store(true, std::memory_order_relaxed);
  read.store(by_system_call, std::memory_order_relaxed);
}

bool clock_left_alone() noexcept { return left_alone.load(std::memory_order_relaxed); }

uint64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  read.load(std::memory_order_relaxed)(clock, &now);
  return nanoseconds(now);
}

uint64_t now_by_system_call_ns() noexcept {
  timespec now{};
  by_system_call(CLOCK_MONOTONIC, &now);
  return nanoseconds(now);
}

}  // namespace aiflame
