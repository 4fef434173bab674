// The part of CPython's stable C interface that our Python code in the program needs, looked up by name. All of it needs the GIL.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::bridge {

using Object = void*;

// PyMethodDef, and the two flags that we use: arguments come as an array, keyword arguments behind them.
struct Method {
  const char* name;
  void* function;
  int flags;
  const char* doc;
};
inline constexpr int kFastCall = 0x80, kKeywords = 0x02;
inline constexpr int kFileInput = 257;  // Py_file_input

struct Abi {
  Object (*current_interpreter)();  // not an object: PyInterpreterState
  Object (*main_interpreter)();

  int (*is_ending)();  // nullptr: cannot be queried

  // From 3.11, else nullptr: between the two calls the program's tracers and profilers (settrace) see no code.
  Object (*thread_state)();  // not an object: PyThreadState
  void (*enter_tracing)(Object);
  void (*leave_tracing)(Object);

  Object (*type_of)(Object);
  void* (*vectorcall_of)(Object);  // how an object is called: not an object. nullptr: cannot be queried

  Object (*modules)();  // borrowed
  Object (*new_module)(const char*);
  Object (*new_function)(Method*, Object, Object);
  Object (*module_dict)(Object);  // borrowed
  Object (*builtins)();           // borrowed
  Object (*compile)(const char*, const char*, int);
  Object (*evaluate)(Object, Object, Object);
  Object (*call)(Object, Object);

  Object (*attribute)(Object, const char*);
  int (*set_attribute)(Object, const char*, Object);
  Object (*dict_item)(Object, const char*);  // borrowed, no error
  int (*set_dict_item)(Object, const char*, Object);
  int (*delete_dict_item)(Object, const char*);
  intptr_t (*tuple_size)(Object);
  Object (*tuple_item)(Object, intptr_t);  // borrowed
  Object (*text_of)(Object);               // str()

  Object (*new_text)(const char*);  // in the file system's encoding: any bytes
  const char* (*utf8)(Object, intptr_t*);
  Object (*encode)(Object, const char*, const char*);
  int (*bytes)(Object, char**, intptr_t*);
  Object (*new_number)(unsigned long long);
  long long (*number)(Object, int*);
  unsigned long long (*unsigned_number)(Object);
  double (*real)(Object);
  int (*is_instance)(Object, Object);
  int (*is_callable)(Object);

  void (*take_error)(Object*, Object*, Object*);
  void (*complete_error)(Object*, Object*, Object*);
  void (*put_error)(Object, Object, Object);
  void (*set_error)(Object, const char*);
  void (*clear_error)();
  Object (*error)();  // borrowed
  int (*error_is)(Object);

  void (*hold)(Object);
  void (*release)(Object);

  // Objects.
  Object none, text_type, bytes_type, number_type, real_type;
  Object *type_error, *value_error, *exception;
};

// Filled before Python can call any function of ours.
extern Abi py;

// False if something is missing.
bool find_abi(void* library) noexcept;

// A reference that we own.
class Held {
 public:
  explicit Held(Object object = nullptr) noexcept : object_(object) {}
  ~Held() {
    if (object_) py.release(object_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Object get() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  Object give() noexcept {
    Object object = object_;
    object_ = nullptr;
    return object;
  }
  void replace(Object object) noexcept {
    if (object_) py.release(object_);
    object_ = object;
  }

 private:
  Object object_;
};

}  // namespace aiflame::bridge
