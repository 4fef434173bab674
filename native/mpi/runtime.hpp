// The MPI implementation that a caller's calls are meant for. A process may have several, including some that are visible only to their users
// (RTLD_LOCAL): each caller gets the functions that it would get without us.
#pragma once
#include "mpi/functions.hpp"

#include <atomic>

namespace aiflame::mpi {

using Word = uint64_t;
// The type of every MPI function, with as many words as the longest one.
using Real = Word(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);

// The function that `caller` would have got without us; nullptr: none.
void* without_us(const char* name, uint64_t caller) noexcept;

class Runtime {
 public:
  // The caller's MPI; a runtime without functions if it has no MPI.
  static Runtime& of(uint64_t caller) noexcept;

  // The function behind ours.
  struct Behind {
    Real* function;  // nullptr: no library behind us has the name
    bool of_mpi;     // false: a function with the same name that has nothing to do with MPI
  };
  Behind behind(size_t function, Language language, uint64_t caller) noexcept {
    Word entry = behind_[function][language].load(std::memory_order_acquire);
    if (!entry) entry = find(function, language, caller);
    return {reinterpret_cast<Real*>(entry & ~kForeign), !(entry & kForeign)};
  }

#define QUESTION(name, ...) int (*name)(__VA_ARGS__) = nullptr;
#define NUMBER(name) Word (*name)(int) = nullptr;
#include "mpi/questions.inc"
#undef QUESTION
#undef NUMBER

  // Handles are addresses (Open MPI, the standard ABI) or 32-bit numbers in words whose other half is undefined (MPICH).
  bool wide = false;
  Word world = 0, no_comm = 0;
  int nobody = 0, root_here = 0;  // MPI_PROC_NULL, MPI_ROOT; 0: unknown

 private:
  static constexpr Word kForeign = 1ull << 63;  // a bit that no address has

  Word find(size_t function, Language language, uint64_t caller) noexcept;
  void know(void* library, void* type_size) noexcept;
  static Runtime& look_for(uint64_t caller) noexcept;

  uint64_t base_ = 0;  // where its library lies
  std::atomic<Word> behind_[kFunctionCount][LANGUAGES]{};
};

}  // namespace aiflame::mpi
