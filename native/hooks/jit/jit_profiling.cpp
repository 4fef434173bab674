// The Intel JIT-profiling interface: a run-time compiler (oneDNN's, for one) loads the library that INTEL_JIT_PROFILER64 names
// (native/agent, which passes everything on to here) and reports every function that it makes. Layouts from Intel's jitprofiling.h.
#include "hooks/shared/exported.hpp"
#include "spool/control.hpp"
#include "unwind/jit_code.hpp"

#include <cstring>

namespace aiflame {

namespace {

enum Event : unsigned { METHOD_LOADED = 13, METHOD_LOADED_2 = 21, METHOD_LOADED_3 = 22 };

// The beginning that all versions of the record share.
struct MethodLoad {
  unsigned id;
  const char* name;
  void* address;
  unsigned size;
  unsigned line_count;
  const jit::Line* lines;
  unsigned class_id;
  const char* class_file;
  const char* source;
};
static_assert(sizeof(MethodLoad) == 64 && offsetof(MethodLoad, lines) == 32 && offsetof(MethodLoad, source) == 56);

std::string_view text(const char* string) noexcept { return string ? std::string_view(string) : std::string_view(); }

}  // namespace

AIFLAME_EXPORT unsigned aiflame_jit_listens() { return control::has(schema::Feature::JIT); }

AIFLAME_EXPORT int aiflame_jit_notify(unsigned event, void* data) {
  if ((event == METHOD_LOADED || event == METHOD_LOADED_2 || event == METHOD_LOADED_3) && data) {
    auto* method = static_cast<const MethodLoad*>(data);
    jit::add(text(method->name), text(method->source), reinterpret_cast<uint64_t>(method->address), method->size, method->lines,
             method->lines ? method->line_count : 0);
  }
  return 1;
}

}  // namespace aiflame
