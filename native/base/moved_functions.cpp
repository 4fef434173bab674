#include "base/moved_functions.hpp"

#include <atomic>
#include <cerrno>
#include <string_view>

// The function by which libc itself loads libdl, in the versions that have one.
extern "C" [[gnu::weak]] void* __libc_dlopen_mode(const char* name, int mode);
extern "C" [[gnu::weak]] void* __libc_dlsym(void* library, const char* name);

namespace aiflame::moved {

namespace {

constexpr int kFromLibc = static_cast<int>(0x80000000);  // a mode that __libc_dlopen_mode() insists on

void* in_libdl(const char* name) noexcept {
  static std::atomic<void*> libdl{nullptr};
  if (!&__libc_dlopen_mode || !&__libc_dlsym) return nullptr;
  void* library = libdl.load(std::memory_order_acquire);
  if (!library) libdl.store(library = __libc_dlopen_mode("libdl.so.2", RTLD_NOW | kFromLibc), std::memory_order_release);
  return library ? __libc_dlsym(library, name) : nullptr;
}

// The result of a missing function: an error number for pthread's functions; for dladdr() and the like, 0 means not found.
int fails() noexcept { return ENOSYS; }
void* finds_nothing() noexcept { return nullptr; }

}  // namespace

void* find(const char* name) noexcept {
  // No library of the process is linked with libpthread, or it came after us.
  if (std::string_view(name).starts_with("pthread_")) {
    auto* look_up = reinterpret_cast<void* (*)(void*, const char*)>(in_libdl("dlsym"));
    void* found = look_up ? look_up(RTLD_DEFAULT, name) : nullptr;
    return found ? found : reinterpret_cast<void*>(&fails);
  }
  void* found = in_libdl(name);
  return found ? found : reinterpret_cast<void*>(&finds_nothing);
}

}  // namespace aiflame::moved
