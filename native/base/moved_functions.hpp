// Included before every file of the collector: functions that moved from libdl and libpthread into libc.so.6 with glibc 2.32 to 2.34.
//
// A library that needs those two can be loaded on every system since glibc 2.28, but for a program that ends at once, two more libraries cost as much
// as everything else that we do in it. So the collector needs only libc: it is linked weakly with the first versions of these functions, and if no
// library of the process has them (in an old system's program that is linked only with libc), libdl is loaded for them.
#pragma once
#include <dlfcn.h>
#include <pthread.h>

namespace aiflame::moved {

// If no library has the function, returns one that fails.
void* find(const char* name) noexcept;

template <class Function>
Function* function(Function* linked, const char* name) noexcept {
  return linked ? linked : reinterpret_cast<Function*>(find(name));
}

}  // namespace aiflame::moved

#define AIFLAME_MOVED(name, version)                                 \
  extern "C" [[gnu::weak]] __typeof__(::name) aiflame_linked_##name; \
  __asm__(".symver aiflame_linked_" #name "," #name "@GLIBC_" version)
AIFLAME_MOVED(dladdr, "2.2.5");
AIFLAME_MOVED(dladdr1, "2.3.3");
AIFLAME_MOVED(dlinfo, "2.3.3");
AIFLAME_MOVED(dlopen, "2.2.5");
AIFLAME_MOVED(dlvsym, "2.2.5");
AIFLAME_MOVED(pthread_attr_getstack, "2.2.5");
AIFLAME_MOVED(pthread_attr_getstacksize, "2.2.5");
AIFLAME_MOVED(pthread_getattr_np, "2.2.5");
AIFLAME_MOVED(pthread_key_create, "2.2.5");
AIFLAME_MOVED(pthread_setname_np, "2.12");
AIFLAME_MOVED(pthread_setspecific, "2.2.5");
#undef AIFLAME_MOVED
#define dladdr(...) aiflame::moved::function(aiflame_linked_dladdr, "dladdr")(__VA_ARGS__)
#define dladdr1(...) aiflame::moved::function(aiflame_linked_dladdr1, "dladdr1")(__VA_ARGS__)
#define dlinfo(...) aiflame::moved::function(aiflame_linked_dlinfo, "dlinfo")(__VA_ARGS__)
#define dlopen(...) aiflame::moved::function(aiflame_linked_dlopen, "dlopen")(__VA_ARGS__)
#define dlvsym(...) aiflame::moved::function(aiflame_linked_dlvsym, "dlvsym")(__VA_ARGS__)
#define pthread_attr_getstack(...) aiflame::moved::function(aiflame_linked_pthread_attr_getstack, "pthread_attr_getstack")(__VA_ARGS__)
#define pthread_attr_getstacksize(...) aiflame::moved::function(aiflame_linked_pthread_attr_getstacksize, "pthread_attr_getstacksize")(__VA_ARGS__)
#define pthread_getattr_np(...) aiflame::moved::function(aiflame_linked_pthread_getattr_np, "pthread_getattr_np")(__VA_ARGS__)
#define pthread_key_create(...) aiflame::moved::function(aiflame_linked_pthread_key_create, "pthread_key_create")(__VA_ARGS__)
#define pthread_setname_np(...) aiflame::moved::function(aiflame_linked_pthread_setname_np, "pthread_setname_np")(__VA_ARGS__)
#define pthread_setspecific(...) aiflame::moved::function(aiflame_linked_pthread_setspecific, "pthread_setspecific")(__VA_ARGS__)
// Our own calls go to the definition that the program would call, which may be ours (hooks/libc/dlsym.cpp).
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
