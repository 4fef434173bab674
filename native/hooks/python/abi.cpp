#include "hooks/python/abi.hpp"
#include "base/large.hpp"

#include <dlfcn.h>

namespace aiflame::bridge {

AIFLAME_LARGE Abi py;

namespace {

class Finder {
 public:
  explicit Finder(void* library) noexcept : library_(library) {}

  template <class Pointer>
  void operator()(const char* name, Pointer* out) noexcept {
    *out = reinterpret_cast<Pointer>(dlsym(library_, name));
    if (!*out) complete_ = false;
  }
  bool complete() const noexcept { return complete_; }

 private:
  void* library_;
  bool complete_ = true;
};

}  // namespace

bool find_abi(void* library) noexcept {
  Finder find(library);
  find("PyInterpreterState_Get", &py.current_interpreter);
  find("PyInterpreterState_Main", &py.main_interpreter);
  find("PyObject_Type", &py.type_of);
  find("PyImport_GetModuleDict", &py.modules);
  find("PyModule_New", &py.new_module);
  find("PyCFunction_NewEx", &py.new_function);
  find("PyModule_GetDict", &py.module_dict);
  find("PyEval_GetBuiltins", &py.builtins);
  find("Py_CompileString", &py.compile);
  find("PyEval_EvalCode", &py.evaluate);
  find("PyObject_CallObject", &py.call);
  find("PyObject_GetAttrString", &py.attribute);
  find("PyObject_SetAttrString", &py.set_attribute);
  find("PyDict_GetItemString", &py.dict_item);
  find("PyDict_SetItemString", &py.set_dict_item);
  find("PyDict_DelItemString", &py.delete_dict_item);
  find("PyTuple_Size", &py.tuple_size);
  find("PyTuple_GetItem", &py.tuple_item);
  find("PyObject_Str", &py.text_of);
  find("PyUnicode_DecodeFSDefault", &py.new_text);
  find("PyUnicode_AsUTF8AndSize", &py.utf8);
  find("PyUnicode_AsEncodedString", &py.encode);
  find("PyBytes_AsStringAndSize", &py.bytes);
  find("PyLong_FromUnsignedLongLong", &py.new_number);
  find("PyLong_AsLongLongAndOverflow", &py.number);
  find("PyLong_AsUnsignedLongLong", &py.unsigned_number);
  find("PyFloat_AsDouble", &py.real);
  find("PyObject_IsInstance", &py.is_instance);
  find("PyCallable_Check", &py.is_callable);
  find("PyErr_Fetch", &py.take_error);
  find("PyErr_NormalizeException", &py.complete_error);
  find("PyErr_Restore", &py.put_error);
  find("PyErr_SetString", &py.set_error);
  find("PyErr_Clear", &py.clear_error);
  find("PyErr_Occurred", &py.error);
  find("PyErr_ExceptionMatches", &py.error_is);
  find("Py_IncRef", &py.hold);
  find("Py_DecRef", &py.release);
  find("_Py_NoneStruct", &py.none);
  find("PyUnicode_Type", &py.text_type);
  find("PyBytes_Type", &py.bytes_type);
  find("PyLong_Type", &py.number_type);
  find("PyFloat_Type", &py.real_type);
  find("PyExc_TypeError", &py.type_error);
  find("PyExc_ValueError", &py.value_error);
  find("PyExc_Exception", &py.exception);
  bool complete = find.complete();
  find("Py_IsFinalizing", &py.is_ending);  // from 3.13
  if (!py.is_ending) find("_Py_IsFinalizing", &py.is_ending);
  find("PyVectorcall_Function", &py.vectorcall_of);
  find("PyThreadState_Get", &py.thread_state);
  find("PyThreadState_EnterTracing", &py.enter_tracing);
  find("PyThreadState_LeaveTracing", &py.leave_tracing);
  return complete;
}

}  // namespace aiflame::bridge
