#include "hooks/jax/jit_calls.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "hooks/python/bridge.hpp"
#include "hooks/python/call_pointers.hpp"
#include "hooks/python/values.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

namespace aiflame::jax {

namespace {

using namespace bridge;

Call call_function;        // as jaxlib has it for every jitted function
thread_local bool inside;  // the thread is in a call

void record(Object function, uint64_t begin_ns) noexcept {
  control::Use use;
  Thread* thread = control::recording() ? threads::self() : nullptr;
  if (!thread || !thread->row) return;
  uint64_t end_ns = now_ns();
  spool::append(schema::JitCall{.thread = thread->row, .function = reinterpret_cast<uint64_t>(function), .begin_ns = begin_ns, .end_ns = end_ns});
  poke(end_ns);
}

Object called(Object function, const Object* arguments, size_t count, Object names) {
  if (inside || !control::recording()) return call_function(function, arguments, count, names);
  inside = true;
  uint64_t begin_ns = now_ns();
  Object result = call_function(function, arguments, count, names);
  inside = false;
  record(function, begin_ns);
  return result;
}

// Whether calls of `function`, which is `size` bytes long, are recorded from now on.
Object watch_jit_calls(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"function", "size"};
  Arguments arguments(kNames, 2);
  uint64_t size;
  if (!arguments.bind(given, count, keywords) || !read_number(arguments[1], 0, &size)) return nullptr;
  Call known = call_of(arguments[0]);
  if (!call_function && known) call_function = known;
  return py.new_number(known && known == call_function && lead_calls(arguments[0], size, known, called));
}

}  // namespace

bool add_python_functions(bridge::Object module) noexcept {
  AIFLAME_LARGE static Method methods[] = {method("watch_jit_calls", watch_jit_calls)};
  return add_functions(module, methods);
}

}  // namespace aiflame::jax
