#include "driver.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace fake {

void wrong(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("fake CUDA: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  fflush(stderr);
  abort();
}

long setting(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text && *text ? atol(text) : otherwise;
}

}  // namespace fake
