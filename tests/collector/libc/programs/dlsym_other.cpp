// Another library that stands in front of dlsym(), and counts.
#include <dlfcn.h>
#include <cstdio>

namespace {

int calls;
__attribute__((destructor)) void tell() { printf("asked: %s\n", calls > 3 ? "often" : "seldom"); }

}  // namespace

extern "C" void* dlsym(void* library, const char* name) noexcept {
  static auto* const next = reinterpret_cast<void* (*)(void*, const char*)>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  calls++;
  return next(library, name);
}
