// Included before every file of the small libraries beside the collector (the collector uses base/moved_functions.hpp). Functions that moved into
// libc.so.6 with glibc 2.32 to 2.34 are bound to their first versions, so that a library built on a new system can be loaded on one with glibc 2.28.
// There they are in libdl and libpthread, which the library therefore needs; on a new system these two are empty.
#pragma once

#define AIFLAME_OLD(name, version) __asm__(".symver " #name "," #name "@GLIBC_" version)
AIFLAME_OLD(dladdr, "2.2.5");
AIFLAME_OLD(dladdr1, "2.3.3");
AIFLAME_OLD(dlinfo, "2.3.3");
AIFLAME_OLD(dlopen, "2.2.5");
AIFLAME_OLD(dlsym, "2.2.5");
AIFLAME_OLD(dlvsym, "2.2.5");
AIFLAME_OLD(pthread_attr_getstack, "2.2.5");
AIFLAME_OLD(pthread_getattr_np, "2.2.5");
AIFLAME_OLD(pthread_getspecific, "2.2.5");
AIFLAME_OLD(pthread_key_create, "2.2.5");
AIFLAME_OLD(pthread_setname_np, "2.12");
AIFLAME_OLD(pthread_setspecific, "2.2.5");
#undef AIFLAME_OLD
