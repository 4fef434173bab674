// The answers of dlsym(), for every way of calling it: the test compares a run alone with a recorded one.
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" const char* first_asks_next();
extern "C" const char* who() { return "program"; }

namespace {

const char* called(void* function) { return function ? reinterpret_cast<const char* (*)()>(function)() : "nothing"; }

const char* error() {
  const char* text = dlerror();
  return text ? strrchr(text, ':') : "no error";
}

}  // namespace

int main(int, char** arguments) {
  printf("by default: %s\n", called(dlsym(RTLD_DEFAULT, "who")));
  printf("next of the program: %s\n", called(dlsym(RTLD_NEXT, "who")));
  printf("next of the first library: %s\n", first_asks_next());
  printf("malloc is malloc: %d\n", dlsym(RTLD_DEFAULT, "malloc") == reinterpret_cast<void*>(&malloc));
  printf("absent: %d %s\n", dlsym(RTLD_DEFAULT, "nowhere_to_be_found") != nullptr, error());
  printf("absent, like CUPTI's: %d %s\n", dlsym(RTLD_DEFAULT, "cuptiNothing") != nullptr, error());
  void* self = dlopen(nullptr, RTLD_LAZY);
  printf("of the program: %s\n", called(dlsym(self, "who")));
  printf("absent in the program: %d %s\n", dlsym(self, "cuptiNothing") != nullptr, error());
  void* second = dlopen(arguments[1], RTLD_LAZY);
  printf("of the second library: %s\n", called(dlsym(second, "who")));
  printf("CUPTI's name in another library: %s\n", called(dlsym(second, "cuptiGetVersion")));
  printf("an empty name: %d\n", dlsym(second, "") != nullptr);
  dlerror();
  printf("of all versions: %d\n", dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5") != nullptr);
}
