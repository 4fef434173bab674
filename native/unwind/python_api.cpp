#include "unwind/python_api.hpp"

#include "base/next_definition.hpp"

#include <dlfcn.h>
#include <link.h>
#include <cstdlib>
#include <cstring>

namespace aiflame::python {

namespace {

int look_at(dl_phdr_info* info, size_t, void* path) noexcept {
  const char* name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : nullptr;
  if (!name || strncmp(name, "/libpython3.", 12) != 0) return 0;
  *static_cast<const char**>(path) = info->dlpi_name;
  return 1;
}

// Where the interpreter's symbols are: global, as a rule; a program that embeds Python may keep its library to itself.
bool find_interpreter(void** library) noexcept {
  *library = RTLD_DEFAULT;
  if (!next_definition::is_absent("Py_AddPendingCall") && dlsym(RTLD_DEFAULT, "Py_AddPendingCall")) return true;
  const char* path = nullptr;
  dl_iterate_phdr(look_at, &path);
  return path && (*library = dlopen(path, RTLD_NOLOAD | RTLD_LAZY));
}

// "3.10.13 (main, …": 3.10 has no Py_Version.
uint32_t parse(const char* version) noexcept {
  char* rest = nullptr;
  unsigned long major = strtoul(version, &rest, 10);
  unsigned long minor = *rest == '.' ? strtoul(rest + 1, nullptr, 10) : 0;
  return static_cast<uint32_t>(major << 8 | minor);
}

template <class Function>
void find(void* library, const char* name, Function* out) noexcept {
  *out = reinterpret_cast<Function>(dlsym(library, name));
}

uint64_t address(void* library, const char* name) noexcept { return reinterpret_cast<uint64_t>(dlsym(library, name)); }

}  // namespace

bool find_api(Api* out) noexcept {
  void* library;
  if (!find_interpreter(&library)) return false;
  *out = {};
  out->library = library;
  find(library, "PyGILState_GetThisThreadState", &out->this_thread);
  find(library, "Py_AddPendingCall", &out->add_pending_call);
  find(library, "Py_IsInitialized", &out->is_initialized);
  find(library, "PyType_GetSlot", &out->type_slot);
  find(library, "PyEval_GetFrame", &out->current_frame);
  find(library, "PyFrame_GetBack", &out->frame_back);
  find(library, "PyFrame_GetCode", &out->frame_code);
  find(library, "PyFrame_GetLasti", &out->frame_lasti);
  find(library, "PyObject_GetAttrString", &out->attribute);
  find(library, "PyLong_AsLong", &out->as_long);
  find(library, "PyUnicode_AsUTF8AndSize", &out->as_utf8);
  find(library, "PyBytes_AsStringAndSize", &out->as_bytes);
  find(library, "Py_DecRef", &out->release);
  find(library, "PyErr_Clear", &out->clear_error);
  out->runtime = reinterpret_cast<const uint64_t*>(address(library, "_PyRuntime"));
  out->code_type = address(library, "PyCode_Type");
  out->text_type = address(library, "PyUnicode_Type");
  out->bytes_type = address(library, "PyBytes_Type");
  out->cell_type = address(library, "PyCell_Type");

  const char* (*version)() = nullptr;
  find(library, "Py_GetVersion", &version);
  if (!out->this_thread || !out->add_pending_call || !out->code_type || !version) return false;
  out->version = parse(version());
  if (out->version < 0x030c) find(library, "_PyThreadState_UncheckedGet", &out->gil_holder);
  return true;
}

}  // namespace aiflame::python
