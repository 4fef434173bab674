// The next definition of a function after ours, found as dlsym(RTLD_NEXT) finds it, but without the dynamic linker's lock: in any thread,
// also in a handler, and also while another thread loads a library and waits for this one. So a function can be looked up when it is first
// called, and a program that ends at once pays for few of them.
#pragma once
#include <cstdint>

namespace aiflame::next_definition {

// DT_GNU_HASH's hash of a name.
constexpr uint32_t hash_of(const char* name) noexcept {
  uint32_t hash = 5381;
  for (; *name; name++) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// Where we and libc are among the libraries of the process. Once, when recording begins; not in a handler.
void learn() noexcept;
// There is a libc behind us with everything in it, as since glibc 2.34: every function that the program can have called was found there.
bool usable() noexcept;

// nullptr where no library between us and libc, or libc, has it in a form that needs no more than its address.
void* find(const char* name, uint32_t hash) noexcept;

// While it lives the thread runs a constructor of ours: libraries neither come nor go, and that none has a function is found out without
// what dlsym() does then (it writes a message, into the first memory that a small program takes).
class Loading {
 public:
  Loading() noexcept;
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
};
// No library of the process has it. False as well where that is not known.
bool is_absent(const char* name) noexcept;

}  // namespace aiflame::next_definition
