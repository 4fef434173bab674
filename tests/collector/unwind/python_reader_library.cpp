// The reader of Python frames as a library that a test can load into any interpreter: the walk as plain numbers.
//
// It has a profile of its own and a fault handler of its own, so that nothing else of the collector has to work.
#include "base/safe_load.hpp"
#include "base/sys.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"
#include "unwind/python_codes.hpp"
#include "unwind/python_frames.hpp"
#include "unwind/python_self_test.hpp"

#include <pthread.h>
#include <ucontext.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

using namespace aiflame;

namespace {

constexpr size_t kRoom = 1024;

void on_fault(int signal_number, siginfo_t*, void* context) noexcept {
  greg_t& pc = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  if (uint64_t resume = safe_load_resume(static_cast<uint64_t>(pc)))
    pc = static_cast<greg_t>(resume);
  else
    signal(signal_number, SIG_DFL);
}

void handle(int number, void (*handler)(int, siginfo_t*, void*)) noexcept {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;
  sigaction(number, &action, nullptr);
}

// The handler's result: the innermost frames, up to a fixed number.
struct Sample {
  uint32_t depth;
  PythonFrame frames[64];
};
// Never freed: ticks go on while the process ends.
Sample* samples;
std::atomic<size_t> sampled, sample_room;

void on_tick(int, siginfo_t*, void*) noexcept {
  size_t index = sampled.fetch_add(1);
  if (index >= sample_room.load()) return;
  Sample& sample = samples[index];
  sample.depth = static_cast<uint32_t>(python::walk(sample.frames, std::size(sample.frames)));
}

timer_t timer;

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// `profile` has a control page.
int test_setup(const char* profile) {
  handle(SIGSEGV, on_fault);
  handle(SIGBUS, on_fault);
  if (!control::attach(profile)) return -1;
  spool::open(1);
  python::attach();
  return python::attached();
}

int test_verdict() { return python::verified() ? 1 : python::refused() ? -1 : 0; }
int test_version() { return static_cast<int>(python::version()); }

// Frame words, evaluators and entry flags, innermost first.
size_t test_walk(uint64_t* words, uint64_t* evaluators, uint8_t* entries, size_t room) {
  PythonFrame frames[kRoom];
  static thread_local auto* met = static_cast<python::PlacesMet*>(sys::map_memory(sizeof(python::PlacesMet)));
  size_t count = python::walk(frames, std::min(room, kRoom), met);
  for (size_t index = 0; index < count; index++) {
    words[index] = frames[index].word;
    evaluators[index] = frames[index].evaluator;
    entries[index] = frames[index].entry;
  }
  return count;
}

// An address in this very function's native frame: stacks grow down, so evaluators of the caller lie above it.
uint64_t test_stack_address() { return reinterpret_cast<uint64_t>(__builtin_frame_address(0)); }

uint32_t test_code_id(uint64_t code) { return python::codes::id_of(code); }
void test_forget_rows() { python::forget_rows(); }

// The child of a fork, as the collector treats it: tables of its own.
int test_after_fork() {
  spool::abandon();
  python::forget_rows();
  spool::open(2);
  return 1;
}

void test_schedule_self_test() { python::schedule_self_test(); }

// The self-test with the right layout, or with one field wrong. Needs the GIL.
int test_self_test_with(const char* fault) {
  python::Api api;
  python::Layout layout;
  const char* reason;
  if (!python::find_api(&api) || !python::layout_of(api.version, api.runtime, &layout, &reason)) return -1;
  std::string_view wrong = fault;
  if (wrong == "instruction") layout.frame_instruction -= 8;
  if (wrong == "previous") layout.frame_previous += 8;
  if (wrong == "code") layout.frame_code += 8;
  if (wrong == "first line") layout.code_first_line += 4;
  if (wrong == "file name") layout.code_filename = layout.code_qualname;
  if (wrong == "line table") layout.code_linetable = layout.code_qualname;
  return static_cast<int>(python::self_test(api, layout));
}

// How many frames a thread has that Python knows nothing of.
size_t test_walk_in_foreign_thread() {
  size_t count = 1;
  pthread_t thread;
  auto body = [](void* result) -> void* {
    PythonFrame frames[kRoom];
    *static_cast<size_t*>(result) = python::walk(frames, kRoom);
    return nullptr;
  };
  pthread_create(&thread, nullptr, body, &count);
  pthread_join(thread, nullptr);
  return count;
}

// Ticks of wall-clock time for the calling thread.
int test_start_ticks(long hertz, size_t room) {
  sample_room = 0;
  samples = static_cast<Sample*>(sys::map_memory(room * sizeof(Sample)));
  sampled = 0;
  sample_room = room;
  handle(SIGPROF, on_tick);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event._sigev_un._tid = gettid();
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return -1;
  itimerspec every{};
  every.it_interval.tv_nsec = every.it_value.tv_nsec = 1'000'000'000 / hertz;
  return timer_settime(timer, 0, &every, nullptr);
}

size_t test_sampled() { return sampled.load(); }

size_t test_stop_ticks() {
  timer_delete(timer);
  return std::min(sampled.load(), sample_room.load());
}

size_t test_sample(size_t index, uint64_t* words) {
  const Sample& sample = samples[index];
  for (uint32_t at = 0; at < sample.depth; at++) words[at] = sample.frames[at].word;
  return sample.depth;
}

// Median nanoseconds of a walk of the calling thread.
double test_time_walk(size_t repetitions, size_t* depth) {
  PythonFrame frames[kRoom];
  std::vector<double> each;
  for (size_t at = 0; at < repetitions; at++) {
    timespec begin, end;
    constexpr int kBatch = 20;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int repeat = 0; repeat < kBatch; repeat++) *depth = python::walk(frames, kRoom);
    clock_gettime(CLOCK_MONOTONIC, &end);
    each.push_back((static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 + static_cast<double>(end.tv_nsec - begin.tv_nsec)) / kBatch);
  }
  std::nth_element(each.begin(), each.begin() + each.size() / 2, each.end());
  return each[each.size() / 2];
}

}  // extern "C"
#pragma GCC visibility pop

// Preloaded, as the collector is: before there is an interpreter.
__attribute__((constructor)) static void set_up_before_main() {
  if (const char* profile = getenv("PYTHON_READER_PROFILE")) test_setup(profile);
}
