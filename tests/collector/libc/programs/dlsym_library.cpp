// NAME: this library reports its own look-ups. It looks functions up while it is initialized, when no other library may be ready.
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>

extern "C" const char* who() { return NAME; }

#ifdef FIRST
extern "C" const char* first_asks_next() { return reinterpret_cast<const char* (*)()>(dlsym(RTLD_NEXT, "who"))(); }
#else
extern "C" const char* cuptiGetVersion() { return "no CUPTI at all"; }
#endif

namespace {

__attribute__((constructor)) void set_up() {
  if (!dlsym(RTLD_DEFAULT, "who") || !dlsym(RTLD_NEXT, "malloc")) abort();
}

}  // namespace
