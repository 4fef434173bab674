#include "mpi/runtime.hpp"

#include "mpi/weak_names.hpp"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// The collector has a dlclose() of its own, so that base/glibc_2_28.hpp leaves it out.
__asm__(".symver dlclose,dlclose@GLIBC_2.2.5");

namespace aiflame::mpi {

namespace {

constexpr char kWitness[] = "PMPI_Type_size";  // every MPI has it, and we do not
constexpr uint32_t kRuntimes = 5;
Runtime runtimes[kRuntimes];  // the first: no MPI
pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

// Pages of code → the MPI that their calls belong to: the page's number, and the runtime's, from 1.
constexpr uint32_t kPages = 1024;
constinit std::atomic<uint64_t> pages[kPages];

struct Held {
  ~Held() { pthread_mutex_unlock(&finding); }
  Held() { pthread_mutex_lock(&finding); }
};

struct Library {
  void* handle;
  explicit Library(const char* path) noexcept : handle(path && *path ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : nullptr) {}
  ~Library() {
    if (handle) dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void* symbol(const char* name) const noexcept { return handle ? dlsym(handle, name) : nullptr; }
};

uint64_t base_of(const void* address) noexcept {
  Dl_info info;
  return address && dladdr(address, &info) ? reinterpret_cast<uint64_t>(info.dli_fbase) : 0;
}

bool ours(const void* address) noexcept {
  static const uint64_t base = base_of(reinterpret_cast<void*>(&base_of));
  return base_of(address) == base;
}

// A library that was found stays loaded, since we shall call it.
void keep(const void* address) noexcept {
  Dl_info info;
  if (dladdr(address, &info) && info.dli_fname && *info.dli_fname) dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY);
}

// Searches a name as the linker does for `caller`: in the global scope, then in its own library and its dependencies.
void* visible(const char* name, uint64_t caller) noexcept {
  if (void* next = dlsym(RTLD_NEXT, name); next && !ours(next)) return next;
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(caller), &info)) return nullptr;
  void* found = Library(info.dli_fname).symbol(name);
  return ours(found) ? nullptr : found;
}

// Searches all libraries: the one that loaded both has connected the caller to its MPI. Paths are collected first, since the list is locked
// meanwhile.
struct Paths {
  char text[1 << 16];
  size_t filled;
};
int add_path(dl_phdr_info* module, size_t, void* context) noexcept {
  auto* paths = static_cast<Paths*>(context);
  size_t length = module->dlpi_name ? strlen(module->dlpi_name) : 0;
  if (!length || paths->filled + length + 1 >= sizeof paths->text) return 0;
  memcpy(paths->text + paths->filled, module->dlpi_name, length + 1);
  paths->filled += length + 1;
  return 0;
}
void* anywhere(const char* name, uint64_t wanted_base) noexcept {
  auto* paths = static_cast<Paths*>(calloc(1, sizeof(Paths)));
  if (!paths) return nullptr;
  dl_iterate_phdr(add_path, paths);
  void* found = nullptr;
  for (const char* path = paths->text; !found && path < paths->text + paths->filled; path += strlen(path) + 1) {
    Library library(path);
    found = library.symbol(name);
    // Fortran's functions lie in a library of their own, which needs the one with C's.
    if (found && (ours(found) || (wanted_base && base_of(library.symbol(kWitness)) != wanted_base))) found = nullptr;
  }
  free(paths);
  return found;
}

// A function of the MPI that `caller` uses.
void* witness_for(uint64_t caller) noexcept {
  void* found = visible(kWitness, caller);
  return found ? found : anywhere(kWitness, 0);
}

// The names of a function in a language, the usual one first.
constexpr size_t kSpellings = 4, kLongest = 64;
bool spell(char* out, size_t function, Language language, size_t spelling) noexcept {
  const FunctionFacts& facts = kFunctions[function];
  if (language == C || language == LARGE) {
    const char* name = language == C ? facts.name : facts.large_name;
    return name && spelling == 0 && snprintf(out, kLongest, "%s", name) > 0;
  }
  constexpr const char* kFortran[kSpellings] = {"_", "", "__", ""};
  if (language == FORTRAN && spelling < kSpellings) {
    snprintf(out, kLongest, "%s%s", facts.name, kFortran[spelling]);
  } else if (language != FORTRAN && spelling == 0) {
    snprintf(out, kLongest, "%s%s", facts.name, language == F08 ? "_f08_" : "_f08ts_");
  } else {
    return false;
  }
  bool capitals = language == FORTRAN && spelling == kSpellings - 1;
  for (char* letter = out; *letter; letter++)
    if (capitals ? *letter >= 'a' && *letter <= 'z' : *letter >= 'A' && *letter <= 'Z') *letter ^= 0x20;
  return true;
}

}  // namespace

void* without_us(const char* name, uint64_t caller) noexcept {
  if (void* found = visible(name, caller)) return found;
  Dl_info info;
  void* found = dladdr(witness_for(caller), &info) ? Library(info.dli_fname).symbol(name) : nullptr;
  return ours(found) ? nullptr : found;
}

Runtime& Runtime::of(uint64_t caller) noexcept {
  uint64_t page = caller >> 12;
  uint64_t known = pages[page % kPages].load(std::memory_order_acquire);
  if (known >> 8 == page && known & 0xFF) [[likely]]
    return runtimes[(known & 0xFF) - 1];
  Runtime& found = look_for(caller);
  pages[page % kPages].store(page << 8 | static_cast<uint64_t>(&found - runtimes + 1), std::memory_order_release);
  return found;
}

Runtime& Runtime::look_for(uint64_t caller) noexcept {
  void* witness = witness_for(caller);
  uint64_t base = base_of(witness);
  if (!base) return runtimes[0];
  withdraw_from(caller);
  Held held;
  for (uint32_t at = 1; at < kRuntimes; at++) {
    Runtime& runtime = runtimes[at];
    if (runtime.base_ == base) return runtime;
    if (runtime.base_) continue;
    Dl_info info;
    dladdr(witness, &info);
    keep(witness);
    runtime.know(Library(info.dli_fname).handle, witness);
    runtime.base_ = base;
    return runtime;
  }
  return runtimes[0];
}

void Runtime::know(void* library, void* type_size) noexcept {
  // The program itself may be linked with MPI statically.
  auto symbol = [=](const char* name) { return library ? dlsym(library, name) : dlsym(RTLD_NEXT, name); };
  // A program may have a library's variables in its own memory, which the library uses then.
  auto variable = [=](const char* name) {
    void* copied = dlsym(RTLD_DEFAULT, name);
    return reinterpret_cast<Word>(copied ? copied : symbol(name));
  };
#define QUESTION(name, ...) name = reinterpret_cast<decltype(name)>(symbol("PMPI_" #name));
#define NUMBER(name) QUESTION(name)
#include "mpi/questions.inc"
#undef QUESTION
#undef NUMBER
  Dl_info info;
  if (symbol("ompi_mpi_comm_world")) {
    wide = true;
    world = variable("ompi_mpi_comm_world"), no_comm = variable("ompi_mpi_comm_null");
    nobody = -2, root_here = -4;
  } else if (dladdr(type_size, &info) && info.dli_fname && strstr(info.dli_fname, "mpi_abi")) {
    wide = true;
    world = 0x101, no_comm = 0x100;
  } else {
    world = 0x44000000, no_comm = 0x04000000;
    nobody = -1, root_here = -3;
  }
}

Word Runtime::find(size_t function, Language language, uint64_t caller) noexcept {
  char name[1 + kLongest];
  char* own = name + 1;
  auto look = [&](auto where) {
    for (size_t spelling = 0; spell(own, function, language, spelling); spelling++)
      if (void* found = where(own)) return found;
    return static_cast<void*>(nullptr);
  };
  auto in_sight = [=](const char* wanted) { return visible(wanted, caller); };
  auto out_of_sight = [=, this](const char* wanted) { return base_ ? anywhere(wanted, base_) : nullptr; };
  void* found = look(in_sight);
  if (!found) found = look(out_of_sight);
  if (!found) return 0;
  keep(found);
  // Each function of MPI has a second name (PMPI_). Those of the module mpi_f08 may lack it, but their names are unique to MPI.
  name[0] = own[0] == 'M' ? 'P' : 'p';
  bool known = base_ && (language >= F08 || in_sight(name) || out_of_sight(name));
  Word word = reinterpret_cast<Word>(found) | (known ? 0 : kForeign);
  behind_[function][language].store(word, std::memory_order_release);
  return word;
}

}  // namespace aiflame::mpi
