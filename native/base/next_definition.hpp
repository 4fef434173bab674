// Finds the next definition of a function after ours, as dlsym(RTLD_NEXT) does, but without the dynamic linker's lock. So it works in any thread, in
// a handler, and while another thread that loads a library waits for this one. Functions can therefore be looked up at their first call, and a
// program that ends at once pays for few look-ups.
#pragma once
#include <link.h>
#include <cstdint>

namespace aiflame::next_definition {

// The hash of a name in DT_GNU_HASH.
constexpr uint32_t hash_of(const char* name) noexcept {
  uint32_t hash = 5381;
  for (; *name; name++) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// Finds the places of our library and of libc among the libraries of the process. Called once, when recording begins; not in a handler.
void learn() noexcept;
// True if a libc behind us has every function, as since glibc 2.34, so that every function that the program may have called was found there.
bool usable() noexcept;

// The function's address; nullptr if neither libc nor a library between us and libc defines it as a plain function at a fixed address.
void* find(const char* name, uint32_t hash) noexcept;

// The address of the first definition in the libraries from `first` to the one before `end` (nullptr: to the last), and that library. Needs no
// learn(). {nullptr, nullptr}: none defines it as a plain function.
struct Definition {
  void* address;
  const link_map* library;
};
Definition find_among(const link_map* first, const link_map* end, const char* name) noexcept;

// While it exists, the thread runs one of our constructors: no library is loaded or unloaded. A missing function is then detected without dlsym(),
// which would write a message into the first memory that a small program allocates.
class Loading {
 public:
  Loading() noexcept;
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
};
// True if no library of the process has the function; false also if that is unknown.
bool is_absent(const char* name) noexcept;

}  // namespace aiflame::next_definition
