// LLVM's and Intel's OpenMP runtimes call a tool at each construct (OMPT, OpenMP 5.0 specification, chapter 4). The types below are those
// of omp-tools.h as far as we need them.
#include "collector.hpp"
#include "hooks/openmp/calls.hpp"
#include "hooks/openmp/openmp.hpp"
#include "hooks/shared/exported.hpp"
#include "spool/control.hpp"

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace aiflame::openmp {

namespace {

union Data {  // ompt_data_t
  uint64_t value;
  void* pointer;
};

struct Frame {  // ompt_frame_t
  Data exit_frame, enter_frame;
  int exit_frame_flags, enter_frame_flags;
};

enum Endpoint : int { BEGIN = 1, END = 2 };  // ompt_scope_endpoint_t
constexpr int kInitialTask = 1;              // ompt_task_initial

enum Callback : int {  // ompt_callbacks_t
  PARALLEL_BEGIN = 3,
  PARALLEL_END = 4,
  TASK_SCHEDULE = 6,
  IMPLICIT_TASK = 7,
  TARGET = 8,
  TARGET_DATA_OP = 9,
  SYNC_REGION_WAIT = 16,
  WORK = 20,
  SYNC_REGION = 23,
};

using Function = void (*)();
using Lookup = Function (*)(const char*);
using SetCallback = int (*)(int, Function);

struct StartToolResult {  // ompt_start_tool_result_t
  int (*initialize)(Lookup, int, Data*);
  void (*finalize)(Data*);
  Data tool_data;
};

// The state that a thread returns to when the region ends: regions nest, a few deep at most.
struct Outer {
  uint32_t stack;
  uint64_t at;
};
constexpr uint32_t kNested = 8;
thread_local Outer outer[kNested];
thread_local uint32_t depth;
thread_local const Data* waiting_task;

void set_launched(Thread& thread, uint32_t stack, uint64_t at) noexcept {
  thread.launched_by = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.launched_at = at;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.launched_by = stack;
}

void set_waiting(Thread& thread, bool waits) noexcept {
  thread.wait_low = 0;
  thread.wait_high = ~0ull;  // the runtime sleeps and yields in libc
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.omp_waiting = waits;
}

// The program's frame from which the runtime was entered, when the runtime reports where its own first frame is.
bool program_frame(const Frame* frame, const void* return_address, Registers* out) noexcept {
  Thread* thread = threads::self();
  uint64_t address = frame ? frame->enter_frame.value : 0;
  if (!thread || address % 8 || address < stack_pointer() || address + 16 > thread->stack_high) return false;
  auto* base = reinterpret_cast<const uint64_t*>(address);
  if (base[1] != reinterpret_cast<uint64_t>(return_address)) return false;
  *out = Registers{.pc = base[1], .sp = reinterpret_cast<uint64_t>(base + 2), .bp = base[0], .all = nullptr, .exact = false};
  return true;
}

void parallel_begin(Data*, const Frame* frame, Data* region, unsigned, int, const void* return_address) noexcept {
  // GCC's code on this runtime: gomp.cpp has recorded its caller already.
  if ((region->value = launching())) return;
  Registers told, from = program_frame(frame, return_address, &told) ? told : caller();
  region->value = region_stack(from);
  trace_begin(Traced::PARALLEL, from);
}

// The callback's caller is the frame of the runtime that goes on to call the region's body: it and all above it are left out.
void implicit_task(int endpoint, Data* region, Data*, unsigned, unsigned, int flags) noexcept {
  if (flags & kInitialTask) return;
  Thread* thread = threads::self();
  if (!thread) return;
  uint64_t at = caller().sp;
  if (endpoint == BEGIN) {
    if (depth < kNested) outer[depth] = {thread->launched_by, thread->launched_at};
    depth++;
    thread->omp_worker = true;
    set_waiting(*thread, false);
    set_launched(*thread, region ? static_cast<uint32_t>(region->value) : 0, at);
  } else if (depth > 0) {
    depth--;
    if (depth < kNested) set_launched(*thread, outer[depth].stack, outer[depth].at);
  }
}

void sync_region_wait(int, int endpoint, Data*, Data* task, const void*) noexcept {
  Thread* thread = threads::self();
  if (!thread) return;
  waiting_task = endpoint == BEGIN ? task : nullptr;
  set_waiting(*thread, endpoint == BEGIN);
}

// A waiting thread may run tasks meanwhile.
void task_schedule(Data*, int, Data* next) noexcept {
  if (!waiting_task) return;
  if (Thread* thread = threads::self()) set_waiting(*thread, next == waiting_task);
}

// ompt_work_t: a loop, and from 5.1 on loops by their schedule.
Traced traced_work(int kind) noexcept {
  constexpr Traced kKinds[] = {Traced::LOOP,      Traced::SECTIONS,   Traced::SINGLE,   Traced::SINGLE_OTHER,
                               Traced::WORKSHARE, Traced::DISTRIBUTE, Traced::TASKLOOP, Traced::SCOPE};
  return kind >= 1 && kind <= 8 ? kKinds[kind - 1] : Traced::LOOP;
}

// ompt_sync_region_t: barriers of several kinds, 5: taskwait, 6: taskgroup, 7: reduction.
Traced traced_wait(int kind) noexcept {
  return kind == 5 ? Traced::TASKWAIT : kind == 6 ? Traced::TASKGROUP : kind == 7 ? Traced::REDUCTION : Traced::BARRIER;
}

// ompt_target_t, with and without nowait.
Traced traced_target(int kind) noexcept {
  constexpr Traced kKinds[] = {Traced::TARGET, Traced::TARGET_ENTER_DATA, Traced::TARGET_EXIT_DATA, Traced::TARGET_UPDATE};
  return kKinds[(kind - 1) & 3];
}

void parallel_end(Data*, Data*, int, const void*) noexcept { trace_end(Traced::PARALLEL); }

void work(int kind, int endpoint, Data*, Data*, uint64_t, const void*) noexcept {
  endpoint == BEGIN ? trace_begin(traced_work(kind), caller()) : trace_end(traced_work(kind));
}

void sync_region(int kind, int endpoint, Data*, Data*, const void*) noexcept {
  endpoint == BEGIN ? trace_begin(traced_wait(kind), caller()) : trace_end(traced_wait(kind));
}

void target(int kind, int endpoint, int, Data*, uint64_t, const void*) noexcept {
  endpoint == BEGIN ? trace_begin(traced_target(kind), caller()) : trace_end(traced_target(kind));
}

void target_data_op(uint64_t, uint64_t, int, void*, int, void*, int, size_t bytes, const void*) noexcept { trace_bytes(bytes); }

std::atomic<bool> reports{false};

int initialize(Lookup look_up, int, Data*) noexcept {
  auto set = reinterpret_cast<SetCallback>(look_up("ompt_set_callback"));
  if (!set) return 0;
  reports.store(true, std::memory_order_relaxed);
  set(PARALLEL_BEGIN, reinterpret_cast<Function>(parallel_begin));
  set(IMPLICIT_TASK, reinterpret_cast<Function>(implicit_task));
  set(SYNC_REGION_WAIT, reinterpret_cast<Function>(sync_region_wait));
  set(TASK_SCHEDULE, reinterpret_cast<Function>(task_schedule));
  if (!control::has(schema::Feature::TRACE_OPENMP)) return 1;
  set(PARALLEL_END, reinterpret_cast<Function>(parallel_end));
  set(WORK, reinterpret_cast<Function>(work));
  set(SYNC_REGION, reinterpret_cast<Function>(sync_region));
  set(TARGET, reinterpret_cast<Function>(target));
  set(TARGET_DATA_OP, reinterpret_cast<Function>(target_data_op));
  return 1;
}

void finalize(Data*) noexcept {}

StartToolResult tool{initialize, finalize, {}};

bool user_has_tools() noexcept {
  const char* list = getenv("OMP_TOOL_LIBRARIES");
  Dl_info self;
  if (!list || !dladdr(&tool, &self)) return false;
  std::string_view rest = list;
  while (!rest.empty()) {
    size_t end = rest.find(':');
    std::string_view one = rest.substr(0, end);
    if (!one.empty() && one != self.dli_fname) return true;
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return false;
}

}  // namespace

bool reported_by_ompt() noexcept { return reports.load(std::memory_order_relaxed); }

}  // namespace aiflame::openmp

// A runtime takes one tool: the first library of the process that answers, then those of OMP_TOOL_LIBRARIES. Preloaded, we come first, and leave the
// place to a tool of the program or of its user.
AIFLAME_EXPORT aiflame::openmp::StartToolResult* ompt_start_tool(unsigned version, const char* runtime) noexcept {
  using namespace aiflame;
  using namespace aiflame::openmp;
  static thread_local bool asking = false;
  if (asking) return nullptr;
  if (auto* next = reinterpret_cast<StartToolResult* (*)(unsigned, const char*)>(dlsym(RTLD_NEXT, "ompt_start_tool"))) {
    asking = true;
    StartToolResult* theirs = next(version, runtime);
    asking = false;
    if (theirs) return theirs;
  }
  if (!collector::active() || !control::has(schema::Feature::OPENMP)) return nullptr;
  return user_has_tools() ? nullptr : &tool;
}
