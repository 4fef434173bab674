#include <pybind11/pybind11.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace py = pybind11;

// Allocates on the way down and back, also while an exception of Python's passes as C++'s.
struct Guard {
  std::vector<std::string> held{"held while", "the call is going on"};
  ~Guard() { held.push_back(std::string(100, 'x')); }
};

int call(const py::function& function, int depth) {
  Guard guard;
  try {
    return function(depth).cast<int>() + static_cast<int>(guard.held.size());
  } catch (py::error_already_set& error) {
    if (depth % 2) throw;
    throw py::value_error(error.what());
  }
}

PYBIND11_MODULE(unwind_bindings, module) { module.def("call", &call); }
