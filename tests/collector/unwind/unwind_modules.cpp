// The collector's modules while libraries come, go and lose their files. Rows go to PROFILE; everything else is printed.
//
//   unwind_modules PROFILE LIBRARY DATA   LIBRARY is loaded, unloaded and deleted; DATA, a file that is no program, is mapped
#include "base/clock.hpp"
#include "innermost_first.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"
#include "unwind/modules.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

using namespace aiflame;

namespace {

uint64_t address(const void* of) { return reinterpret_cast<uint64_t>(of); }

uint64_t load_bias(const void* symbol) {
  Dl_info info;
  link_map* map = nullptr;
  dladdr1(symbol, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
  return map->l_addr;
}

bool right_base(const void* symbol) {
  modules::Module module;
  return modules::find(address(symbol), &module) && module.base == load_bias(symbol) && module.index && module.id && module.low <= address(symbol) &&
         address(symbol) < module.high;
}

int count_mappings() {
  FILE* maps = fopen("/proc/self/maps", "r");
  int lines = 0;
  for (int c; (c = fgetc(maps)) != EOF;) lines += c == '\n';
  fclose(maps);
  return lines;
}

using CallBack = int (*)(int (*)(void*), void*, int);

int frames_here(void*) {
  static NativeUnwinder* unwinder = NativeUnwinder::create();
  static NativeFrame frames[100];
  pthread_attr_t attributes;
  void* low;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  Ending ending;
  size_t count = innermost_first(*unwinder, here(), address(low) + size, frames, 100, &ending);
  return ending == Ending::OUTERMOST ? static_cast<int>(count) : 0;
}

// The ids that a library gets at the one place where it is loaded again and again.
size_t ids_in_a_loop(const char* library, int times) {
  std::set<std::pair<uint64_t, uint32_t>> ids;
  std::set<uint64_t> bases;
  for (int at = 0; at < times; at++) {
    void* handle = dlopen(library, RTLD_NOW);
    modules::Module module{};
    modules::find(address(dlsym(handle, "call_back")), &module);
    ids.insert({module.base, module.id});
    bases.insert(module.base);
    dlclose(handle);
    modules::changed();
  }
  return ids.size() - bases.size();
}

}  // namespace

int main(int, char** arguments) {
  const char* library = arguments[2];
  if (!control::attach(arguments[1])) return 1;
  spool::open(now_ns());
  spool::append(schema::ProcessRecord{.pid = static_cast<uint32_t>(getpid()), .start_ns = now_ns()});
  modules::refresh();
  printf("{\"own\": %d, \"libc\": %d", right_base(reinterpret_cast<void*>(&right_base)), right_base(dlsym(RTLD_DEFAULT, "qsort")));

  modules::Module vdso{};
  modules::find(getauxval(AT_SYSINFO_EHDR) + 0x800, &vdso);
  printf(", \"vdso\": %d", vdso.index_count > 0 && vdso.base == getauxval(AT_SYSINFO_EHDR));

  void* code = mmap(nullptr, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  modules::Module anonymous{};
  bool found = modules::find(address(code), &anonymous);
  uint32_t generation = modules::generation();
  for (int at = 0; at < 100; at++) modules::find(address(code) + 4097, &anonymous);
  printf(", \"anonymous\": %d, \"looked_again\": %d", found && anonymous.view == 0 && anonymous.id == 0, modules::generation() != generation);
  munmap(code, 8192);
  modules::changed();
  printf(", \"gone\": %d", !modules::find(address(code), &anonymous));

  int file = open(arguments[3], O_RDONLY);
  void* data = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  close(file);
  usleep(300'000);  // after an unknown address, the map is left alone for a while
  modules::Module dump{};
  printf(", \"data\": %d", modules::find(address(data), &dump) && dump.id && !dump.index && dump.base == address(data));

  ids_in_a_loop(library, 3);
  int before = count_mappings();
  size_t extra_ids = ids_in_a_loop(library, 300);
  printf(", \"extra_ids\": %zu, \"extra_mappings\": %d", extra_ids, count_mappings() - before);

  std::string copy = std::string(library) + ".copy";
  if (system(("cp " + std::string(library) + " " + copy).c_str()) != 0) return 1;
  void* handle = dlopen(copy.c_str(), RTLD_NOW);
  unlink(copy.c_str());
  auto* call_back = reinterpret_cast<CallBack>(dlsym(handle, "call_back"));
  int without = frames_here(nullptr);
  printf(", \"frames_in_deleted\": %d", call_back(frames_here, nullptr, 9) - without);
  modules::Module deleted{};
  modules::find(address(reinterpret_cast<void*>(call_back)), &deleted);
  printf(", \"deleted_id\": %u", deleted.id);

  handle = dlopen(library, RTLD_NOW);
  call_back = reinterpret_cast<CallBack>(dlsym(handle, "call_back"));
  printf(", \"frames_in_library\": %d}\n", call_back(frames_here, nullptr, 9) - without);
  return 0;
}
