// Python frames of the calling thread, read from the interpreter's memory: no GIL, no C API, nothing allocated.
#pragma once
#include "unwind/frames.hpp"
#include "unwind/python_api.hpp"

namespace aiflame::python {

// Looks for an interpreter in the process and learns its layout (fixed offsets up to 3.12, its own debug offsets from 3.13). Cheap to repeat; not for
// signal handlers. Registers the self-test, which runs on the interpreter's main thread at its next pending call and switches reading off, with a
// note, if a single frame differs from the C API's answer.
void attach() noexcept;

// For an interpreter that attach() found before it was initialised, as it does at load time: registers the self-test once there
// is an interpreter to run it. One load when there is nothing left to do. Call it where the program itself just called into this library
// (its sigaction(), of which CPython makes dozens while it starts), never from a tick: registering a pending
// call takes a lock that the interrupted code may hold.
void schedule_self_test() noexcept;

// Sets the function that runs in that pending call instead, and calls test_self(): under the GIL, on the main thread. Its result is that of the
// pending call (-1: an exception is set). Called before attach().
void test_on_main_thread(int (*call)(const Api&) noexcept) noexcept;
// Runs the self-test. False if no Python code is running that it could compare.
bool test_self() noexcept;

// Makes the main thread call `function` soon, with the GIL. False if there is no interpreter (yet, or any more), or no room. Takes a lock, like
// schedule_self_test().
bool call_soon(int (*function)(void*)) noexcept;

// True if attach() found an interpreter and knows its layout. (The self-test may not have run yet.)
bool attached() noexcept;
// True if the self-test has passed / has failed.
bool verified() noexcept;
bool refused() noexcept;
// PY_VERSION_HEX >> 16 of the interpreter, 0 if the process has none that we can read.
uint32_t version() noexcept;

// Places in code from which a thread has called hooks: their meaning need not be looked up again while no code object is freed. Zeroed memory is an
// empty one.
struct PlacesMet {
  struct Place {
    uint64_t code;  // and the address of its line table
    uint64_t era;   // see codes::era()
    FrameWord word;
    int32_t offset;
    uint32_t layer_call;
  };
  static constexpr uint32_t kBits = 10;
  alignas(64) Place at[1 << kBits];
};

// The frames of the calling thread, innermost first; 0 if it runs no Python. A call of a torch module has a LAYER word just before the word of its
// Python frame. `met`: this thread's places, only for captures that the program's code calls; a tick may see a frame whose code was freed.
size_t walk(PythonFrame* out, size_t room, PlacesMet* met = nullptr) noexcept;
// The data from which walk() derives frames, innermost first: while are_same() is true, and walked_from() and generation::current() do not change, it
// gives the same frames. 0 if there is no room.
size_t reads(Read* out, size_t room, PlacesMet* met) noexcept;
// Compares the words outermost first, as the walk does: a word certainly exists if the words that led to it have not changed.
bool are_same(const Read* reads, size_t count) noexcept;
// The state of the calling thread; 0 if it runs no Python.
uint64_t walked_from() noexcept;
// True if freed code is reported to us, so that facts about code may be cached.
bool may_be_kept() noexcept;

// Row of the module whose call is the innermost on the calling thread, 0: none nearby.
uint32_t innermost_layer(PlacesMet* met) noexcept;

// Address of the object that a local variable of a frame (a PyFrameObject of this thread's) refers to, by the variable's place among `co_varnames`,
// cells and free variables; 0: it has no value, or the self-test has not passed. The interpreter's own `frame.f_locals` keeps references up to 3.12.
// With the GIL, and for places that the code object has.
uint64_t variable_of(uint64_t frame, uint64_t place) noexcept;

// Makes new rows for the child of a fork.
void forget_rows() noexcept;

}  // namespace aiflame::python
