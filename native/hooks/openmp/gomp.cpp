// libgomp has no tools interface: we stand in front of the entry points by which compiled code starts a region. The definitions are
// unversioned, so they serve callers of every symbol version.
#include "collector.hpp"
#include "hooks/openmp/calls.hpp"
#include "hooks/openmp/openmp.hpp"
#include "hooks/openmp/runtimes.hpp"
#include "hooks/shared/exported.hpp"
#include "sampler/capture.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"

namespace aiflame::openmp {

uint32_t region_stack(const Registers& from) noexcept {
  if (!collector::active() || !control::has(schema::Feature::OPENMP)) return 0;
  Thread* thread = threads::self();
  if (!thread) return 0;
  return capture(*thread, from);
}

Under::Under(Thread* thread, uint32_t stack, uint64_t at) noexcept : thread_(stack ? thread : nullptr), stack_(stack) {
  if (!thread_) return;
  before_ = thread_->launched_by;
  before_at_ = thread_->launched_at;
  // A tick between these two must never take the old stack with the new address.
  thread_->launched_by = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread_->launched_at = at;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread_->launched_by = stack;
}

Under::~Under() {
  // The child of a fork inside the region has forgotten the stacks of its parent.
  if (!thread_ || thread_->launched_by != stack_) return;
  thread_->launched_by = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread_->launched_at = before_at_;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread_->launched_by = before_;
}

uint32_t& launching() noexcept {
  static thread_local uint32_t stack;
  return stack;
}

namespace {

using Body = void(void*);

struct Region {
  void* first;  // as in `data` for GOMP_parallel_reductions, which finds the description of the reductions there
  Body* body;
  void* data;
  uint32_t stack;
  Thread* launcher;
  const Runtime* runtime;
  uint64_t point;
};

// From now on the thread waits, whenever it is in its runtime's code.
void wait_in(Thread& thread, const Runtime& runtime) noexcept {
  if (runtime.llvm && reported_by_ompt()) return;
  thread.wait_low = runtime.low;
  thread.wait_high = runtime.high;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.omp_waiting = true;
}

// Every thread of the team runs this in place of the region's body.
void run_region(void* argument) {
  auto* region = static_cast<Region*>(argument);
  Thread* thread = threads::self();
  const Runtime* runtime = region->runtime;
  launching() = 0;
  if (thread) {
    thread->omp_worker |= thread != region->launcher;
    thread->omp_waiting = false;
    thread->launched_point = region->point;
  }
  {
    Under under(thread, region->stack, stack_pointer());
    region->body(region->data);
  }
  if (!thread) return;
  // The launcher waits for the team to finish, a worker for its next region.
  wait_in(*thread, *runtime);
}

// A call of an entry point: hands the real one our body in place of the program's.
class Launch {
 public:
  Launch(const Registers& from, uint64_t sp, Body* theirs, void* their_data) noexcept
      : runtime_(runtime_of(from.pc)),
        region_{nullptr, theirs, their_data, runtime_ ? region_stack(from) : 0, nullptr, runtime_, torch_autograd::packed(torch_autograd::now())},
        under_(region_.stack ? region_.launcher = threads::self() : nullptr, region_.stack, sp) {
    trace_begin(Traced::PARALLEL, from);
    // Until its own share begins it waits for the team to gather.
    if (region_.launcher) wait_in(*region_.launcher, *runtime_);
    launching() = region_.stack;
  }

  ~Launch() {
    launching() = 0;
    trace_end(Traced::PARALLEL);
    if (region_.launcher) region_.launcher->omp_waiting = false;
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  template <class Function>
  Function* real(Entry entry) noexcept {
    return runtime_ ? reinterpret_cast<Function*>(runtime_->functions[entry]) : nullptr;
  }
  Body* body() noexcept { return region_.stack ? run_region : region_.body; }
  void show_first_word() noexcept { region_.first = *static_cast<void**>(region_.data); }
  void* data() noexcept { return region_.stack ? &region_ : region_.data; }
  // No runtime to be found: a team of one is a team.
  void alone() noexcept { region_.body(region_.data); }

 private:
  const Runtime* runtime_;
  Region region_;
  Under under_;
};

// Arguments after the eighth word go on the stack and lower it for the call.
constexpr uint64_t kPushed = 32;

template <class... Rest>
__attribute__((always_inline)) inline void launch(Entry entry, Body* body, void* data, Rest... rest) {
  Launch call(caller(), stack_pointer() - kPushed, body, data);
  if (auto* real = call.real<void(Body*, void*, Rest...)>(entry))
    real(call.body(), call.data(), rest...);
  else
    call.alone();
}

}  // namespace

}  // namespace aiflame::openmp

using namespace aiflame::openmp;

AIFLAME_EXPORT void GOMP_parallel(Body* body, void* data, unsigned threads, unsigned flags) { launch(PARALLEL, body, data, threads, flags); }

AIFLAME_EXPORT unsigned GOMP_parallel_reductions(Body* body, void* data, unsigned threads, unsigned flags) {
  Launch call(caller(), stack_pointer() - kPushed, body, data);
  auto* real = call.real<unsigned(Body*, void*, unsigned, unsigned)>(REDUCTIONS);
  call.show_first_word();
  if (real) return real(call.body(), call.data(), threads, flags);
  call.alone();
  return 1;
}

AIFLAME_EXPORT void GOMP_parallel_sections(Body* body, void* data, unsigned threads, unsigned count, unsigned flags) {
  launch(SECTIONS, body, data, threads, count, flags);
}

AIFLAME_EXPORT void GOMP_parallel_loop_static(Body* body, void* data, unsigned threads, long start, long end, long step, long chunk, unsigned flags) {
  launch(LOOP_STATIC, body, data, threads, start, end, step, chunk, flags);
}
AIFLAME_EXPORT void GOMP_parallel_loop_dynamic(Body* body, void* data, unsigned threads, long start, long end, long step, long chunk,
                                               unsigned flags) {
  launch(LOOP_DYNAMIC, body, data, threads, start, end, step, chunk, flags);
}
AIFLAME_EXPORT void GOMP_parallel_loop_guided(Body* body, void* data, unsigned threads, long start, long end, long step, long chunk, unsigned flags) {
  launch(LOOP_GUIDED, body, data, threads, start, end, step, chunk, flags);
}
AIFLAME_EXPORT void GOMP_parallel_loop_nonmonotonic_dynamic(Body* body, void* data, unsigned threads, long start, long end, long step, long chunk,
                                                            unsigned flags) {
  launch(LOOP_NONMONOTONIC_DYNAMIC, body, data, threads, start, end, step, chunk, flags);
}
AIFLAME_EXPORT void GOMP_parallel_loop_nonmonotonic_guided(Body* body, void* data, unsigned threads, long start, long end, long step, long chunk,
                                                           unsigned flags) {
  launch(LOOP_NONMONOTONIC_GUIDED, body, data, threads, start, end, step, chunk, flags);
}

AIFLAME_EXPORT void GOMP_parallel_loop_runtime(Body* body, void* data, unsigned threads, long start, long end, long step, unsigned flags) {
  launch(LOOP_RUNTIME, body, data, threads, start, end, step, flags);
}
AIFLAME_EXPORT void GOMP_parallel_loop_nonmonotonic_runtime(Body* body, void* data, unsigned threads, long start, long end, long step,
                                                            unsigned flags) {
  launch(LOOP_NONMONOTONIC_RUNTIME, body, data, threads, start, end, step, flags);
}
AIFLAME_EXPORT void GOMP_parallel_loop_maybe_nonmonotonic_runtime(Body* body, void* data, unsigned threads, long start, long end, long step,
                                                                  unsigned flags) {
  launch(LOOP_MAYBE_NONMONOTONIC_RUNTIME, body, data, threads, start, end, step, flags);
}
