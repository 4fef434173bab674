/* mpi_loads_it PLUGIN: a program that knows nothing of MPI and loads what does. Ends with the sum over its ranks. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  void* plugin = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!plugin) return puts(dlerror()), 1;
  int (*work)(void) = (int (*)(void))dlsym(plugin, "work");
  printf("%d\n", work());
  return 0;
}
