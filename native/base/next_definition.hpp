// The next definition of a function after ours, found as dlsym(RTLD_NEXT) finds it, but without the dynamic linker's lock: in any thread,
// also in a handler, and also while another thread loads a library and waits for this one. So a function can be looked up when it is first
// called, and a program that ends at once pays for few look-ups.
#pragma once
#include <cstdint>

namespace aiflame::next_definition {

// DT_GNU_HASH's hash of a name.
constexpr uint32_t hash_of(const char* name) noexcept {
  uint32_t hash = 5381;
  for (; *name; name++) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// Finds our place and libc's among the libraries of the process. Called once, when recording begins; not in a handler.
void learn() noexcept;
// Whether a libc behind us has every function, as since glibc 2.34: every function that the program may have called was found there.
bool usable() noexcept;

// The function's address; nullptr if no library between us and libc, nor libc, defines it as a plain function at a fixed address.
void* find(const char* name, uint32_t hash) noexcept;

// While it lives, the thread runs one of our constructors: no library is loaded or unloaded. A missing function is then detected without dlsym(),
// which would write a message into the first memory that a small program allocates.
class Loading {
 public:
  Loading() noexcept;
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
};
// True if no library of the process has the function; false also if we cannot know.
bool is_absent(const char* name) noexcept;

}  // namespace aiflame::next_definition
