// Paths of the fake system in place of the real one's.
#include "xe_machine.h"

#include <dirent.h>
#include <stdarg.h>

// A path of the fake system in place of the machine's.
static const char* place(const char* path, char* room) {
  static const char* const ours[] = {"/sys/class/drm", "/dev/dri", "/proc/sys/dev/xe"};
  xe_begin();
  for (size_t at = 0; xe_root && path && at < sizeof ours / sizeof *ours; at++) {
    if (strncmp(path, ours[at], strlen(ours[at]))) continue;
    snprintf(room, 4096, "%s%s", xe_root, path);
    return room;
  }
  return path;
}

#define OPENS(name)                                    \
  int name(const char* path, int flags, ...) {         \
    va_list rest;                                      \
    va_start(rest, flags);                             \
    unsigned mode = va_arg(rest, unsigned);            \
    va_end(rest);                                      \
    char room[4096];                                   \
    return REAL(name)(place(path, room), flags, mode); \
  }
OPENS(open)
OPENS(open64)
DIR* opendir(const char* path) {
  char room[4096];
  return REAL(opendir)(place(path, room));
}
#define LOOKS(name, type)                           \
  int name(const char* path, struct type* status) { \
    char room[4096];                                \
    return REAL(name)(place(path, room), status);   \
  }
LOOKS(stat, stat)
LOOKS(stat64, stat64)
LOOKS(lstat, stat)
LOOKS(lstat64, stat64)
#define OLD_LOOKS(name, type)                                              \
  int name(int version, const char* path, struct type* status) {           \
    char room[4096];                                                       \
    int (*real)(int, const char*, struct type*) = dlsym(RTLD_NEXT, #name); \
    return real(version, place(path, room), status);                       \
  }
OLD_LOOKS(__xstat, stat)
OLD_LOOKS(__xstat64, stat64)
OLD_LOOKS(__lxstat, stat)
OLD_LOOKS(__lxstat64, stat64)
