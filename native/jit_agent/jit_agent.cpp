// The library that INTEL_JIT_PROFILER64 names. The interface asks for the entry points `Initialize` and `NotifyEvent`: names so common
// that the preloaded collector must not export them, or it would answer calls that a program makes to functions of its own. This
// library is loaded by run-time compilers alone, and passes what they say on to the collector.
#include <dlfcn.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <class Function>
Function* collectors(const char* name) noexcept {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

// Asked once, when the compiler starts: 0 is "nobody listens", 1 is "sampling".
EXPORT unsigned Initialize() {
  auto* listening = collectors<unsigned()>("aiflame_jit_listens");
  return listening ? listening() : 0;
}

EXPORT int NotifyEvent(unsigned event, void* data) {
  static auto* const notify = collectors<int(unsigned, void*)>("aiflame_jit_notify");
  return notify ? notify(event, data) : 1;
}
