// The interpreter's own functions, looked up by name: this library is built for no particular CPython and links with none.
#pragma once
#include <cstdint>

namespace aiflame::python {

// Only the functions for reading frames may be called in a handler; the others are for the self-test, under the GIL.
struct Api {
  using Object = void*;
  // Reads a thread-specific key: needs no GIL, takes no lock. The state that the calling thread used last, also while it has
  // given up the GIL; from 3.12 on that of the sub-interpreter that it is in.
  void* (*this_thread)();
  // 3.10 and 3.11 only: one load, the state of the thread that holds the (then only) GIL.
  void* (*gil_holder)();
  const uint64_t* runtime;
  uint64_t code_type, text_type, bytes_type, cell_type;

  int (*is_initialized)();
  int (*add_pending_call)(int (*)(void*), void*);
  void* (*type_slot)(Object, int);

  Object (*current_frame)();                 // borrowed
  Object (*frame_back)(Object);              // new
  Object (*frame_code)(Object);              // new
  int (*frame_lasti)(Object);                // from 3.11
  Object (*attribute)(Object, const char*);  // new
  long (*as_long)(Object);
  const char* (*as_utf8)(Object, intptr_t*);
  int (*as_bytes)(Object, char**, intptr_t*);
  void (*release)(Object);
  void (*clear_error)();

  uint32_t version;  // PY_VERSION_HEX >> 16
  void* library;     // where dlsym() finds the interpreter's symbols
};

// False if no interpreter is loaded (yet). Not for signal handlers.
bool find_api(Api* out) noexcept;

}  // namespace aiflame::python
