// The arguments of a call, in any language.
#pragma once
#include "mpi/entries.hpp"
#include "mpi/runtime.hpp"

namespace aiflame::mpi {

class Arguments {
 public:
  Arguments(const Runtime& runtime, const Frame& frame, Language language) noexcept : runtime_(runtime), frame_(frame), language_(language) {}

  int rank(int at) const noexcept { return fortran() ? *reinterpret_cast<const int*>(frame_.word(at)) : static_cast<int>(frame_.word(at)); }
  int64_t count(int at) const noexcept { return language_ == LARGE ? static_cast<int64_t>(frame_.word(at)) : rank(at); }
  // For arguments that have 64 bits in every language.
  int64_t large_count(int at) const noexcept {
    return fortran() ? *reinterpret_cast<const int64_t*>(frame_.word(at)) : static_cast<int64_t>(frame_.word(at));
  }
  int64_t count_of(int at, int element) const noexcept {
    Word array = frame_.word(at);
    return language_ == LARGE ? reinterpret_cast<const int64_t*>(array)[element] : reinterpret_cast<const int*>(array)[element];
  }

  Word comm(int at) const noexcept { return handle(at, runtime_.Comm_f2c); }
  Word window(int at) const noexcept { return handle(at, runtime_.Win_f2c); }
  Word type(int at) const noexcept { return handle(at, runtime_.Type_f2c); }
  Word type_of(int at, int element) const noexcept { return element_of(at, element, runtime_.Type_f2c); }
  // The value behind the pointer in the argument.
  Word comm_behind(int at) const noexcept { return element_of(at, 0, runtime_.Comm_f2c); }
  Word window_behind(int at) const noexcept { return element_of(at, 0, runtime_.Win_f2c); }

  // The call's result: its return value, or its last argument.
  int result(Word returned, uint8_t words) const noexcept {
    if (!fortran()) return static_cast<int>(returned);
    auto* error = reinterpret_cast<const int*>(frame_.word(words));
    return error ? *error : 0;
  }

 private:
  bool fortran() const noexcept { return language_ >= FORTRAN; }
  Word handle(int at, Word (*from_number)(int)) const noexcept { return fortran() ? element_of(at, 0, from_number) : clean(frame_.word(at)); }
  Word element_of(int at, int element, Word (*from_number)(int)) const noexcept {
    Word array = frame_.word(at);
    if (!fortran() && runtime_.wide) return reinterpret_cast<const Word*>(array)[element];
    int number = reinterpret_cast<const int*>(array)[element];
    return fortran() && from_number ? clean(from_number(number)) : static_cast<uint32_t>(number);
  }
  Word clean(Word handle) const noexcept { return runtime_.wide ? handle : static_cast<uint32_t>(handle); }

  const Runtime& runtime_;
  const Frame& frame_;
  Language language_;
};

}  // namespace aiflame::mpi
