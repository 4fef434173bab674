// The functions of a runtime that a library of ours stands in for (native/stand_in): a library for each runtime, preloaded where its calls are
// traced. Its functions are a few instructions each, which call this code; it calls the real function and writes a row of `calls`.
//
// It knows only the functions' names: arguments are words. Calls of functions without a name here do not reach it.
#pragma once
#include "records/calls.hpp"
#include "unwind/frames.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace aiflame::stand_in {

// No function of these runtimes has more arguments than fit. Structures that are passed by value are words, too. Words past a function's
// last argument come from its caller's stack.
inline constexpr size_t kInRegisters = 6, kOnStack = 8;
using Words = std::array<uint64_t, kInRegisters + kOnStack>;
using Real = uint64_t(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                      uint64_t, uint64_t, double, double);

// A caller's argument registers and stack words.
struct Frame {
  uint64_t registers[kInRegisters];
  double floats[2];
  uint64_t bp, pc;
  uint64_t stack[kOnStack];

  uint64_t word(size_t at) const noexcept { return at < kInRegisters ? registers[at] : stack[at - kInRegisters]; }
  Registers caller() const noexcept { return Registers{.pc = pc, .sp = reinterpret_cast<uint64_t>(stack), .bp = bp, .all = nullptr, .exact = false}; }
};

enum class Answer : uint8_t {
  CODE,     // 0 on success
  OBJECT,   // nullptr on failure
  NOTHING,  // a result that does not say whether it failed
};

struct Fact {
  const char* name;
  Answer answer = Answer::CODE;
  uint8_t watch = 0;              // a further action at its calls, defined in each backend's file. 0: none
  int8_t bytes = -1, times = -1;  // the words that give the number of bytes moved, multiplied with each other; -1: none
  uint8_t scale = 1;              // a factor for that
};

constexpr bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view one : names)
    if (name == one) return true;
  return false;
}

inline constexpr size_t kEntryBytes = 16;
inline constexpr uint64_t kForeign = 1ull << 63;  // a bit of Library::behind: a function of that name that does not belong to the runtime

// A library's description of itself, and the state of the runtime behind it.
struct Library {
  schema::CallBackend backend;
  schema::Feature feature;
  const char* prefix;  // of all names
  const char* file;    // the beginning of the runtime's file name
  uint64_t unknown;    // the result of a function that the runtime lacks
  uint32_t not_ready;  // an error code that is not a failure: a later call may succeed
  uint32_t count;
  const Fact* facts;    // ordered by name
  const char* entries;  // the first entry; the others follow
  calls::Function* functions;
  std::atomic<uint64_t>* behind;
  std::atomic<uint64_t> low, high;  // addresses of the runtime's library

  // The runtime's own function; nullptr: it has none of that name.
  Real* real(const char* name) noexcept;
};

// A call before it is made.
struct Call {
  Library& library;
  const Fact& fact;
  Real* real;
  const Frame& frame;
  Words words;

  uint64_t go() const {
    const Words& w = words;
    return real(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], frame.floats[0], frame.floats[1]);
  }
};

// The address that dlsym() returns in place of a function that it found.
void* instead_of(void* found, const char* name) noexcept;

// A function of a driver of Level Zero, past the loader: ours in its place, if we know its name. The first driver's; those of others stay.
void* instead_of_extension(void* found, const char* name) noexcept;
// The library that stands in for the loader of Level Zero; calls of its functions come from there, or from the driver's extensions.
Library& level_zero_loader(Library& called) noexcept;

// Carries out `watch`: makes the call and returns its result.
uint64_t watch_hip(Call& call);
uint64_t watch_level_zero(Call& call);

}  // namespace aiflame::stand_in

// Called by the libraries. `at`: place of the function in Library::facts.
extern "C" __attribute__((visibility("default"))) uint64_t aiflame_stand_in(aiflame::stand_in::Frame* frame, aiflame::stand_in::Library* library,
                                                                            uint32_t at);
