#include "collector.hpp"

#include "all_hooks.hpp"
#include "base/clock.hpp"
#include "base/fresh_memory.hpp"
#include "base/next_definition.hpp"
#include "base/own_process.hpp"
#include "base/sys.hpp"
#include "base/valgrind.hpp"
#include "records/calls.hpp"
#include "records/device_code.hpp"
#include "records/host_memory.hpp"
#include "records/kernel_shapes.hpp"
#include "records/kernel_variants.hpp"
#include "records/launcher.hpp"
#include "sampler/capture.hpp"
#include "sampler/signals.hpp"
#include "sampler/threads.hpp"
#include "sampler/timers.hpp"
#include "spool/control.hpp"
#include "spool/life.hpp"
#include "spool/reach.hpp"
#include "spool/spool.hpp"
#include "unwind/jit_code.hpp"
#include "unwind/modules.hpp"
#include "unwind/python_frames.hpp"
#include "unwind/stack_trie.hpp"

#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <utility>

extern "C" __attribute__((visibility("default"))) int aiflame_start(const char* profile) noexcept;
extern "C" __attribute__((visibility("default"))) void aiflame_stop() noexcept;
extern "C" __attribute__((visibility("default"))) int aiflame_attach(const char* where) noexcept;
extern "C" __attribute__((visibility("default"))) int aiflame_detach(const char*) noexcept;
extern "C" __attribute__((visibility("default"))) void aiflame_pause() noexcept;
extern "C" __attribute__((visibility("default"))) void aiflame_resume() noexcept;

namespace aiflame::collector {

namespace {

std::atomic<bool> running{false};
std::atomic<bool> in_sandbox{false};
std::atomic<bool> by_attach{false};
uint32_t owner = 0;  // the process that started: a vfork child shares our memory but is not us

bool ours() noexcept { return running.load(std::memory_order_acquire) && owner == sys::process_id(); }

// PY_VERSION_HEX >> 16 of the interpreter in the process, 0 if it has none. Py_GetVersion may be called before Py_Initialize.
uint32_t python_version() noexcept {
  static const uint32_t version = [] {
    bool absent = next_definition::is_absent("Py_GetVersion");
    auto get = absent ? nullptr : reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "Py_GetVersion"));
    unsigned major = 0, minor = 0;
    return get && sscanf(get(), "%u.%u", &major, &minor) == 2 ? major << 8 | minor : 0;
  }();
  return version;
}

// CPU time that the process had used when recording began: exec starts another program in the same process, and its clock goes on.
uint64_t used_before_ns;

// Opens the tables, and writes the process and its rank: at start, and again in the child of a fork.
bool open_tables(bool forked) noexcept {
  uint64_t now = now_by_system_call_ns();
  used_before_ns = forked ? 0 : sys::process_cpu_ns();
  spool::open(now);
  spool::life::begin(now, python_version(), forked);
  if (!control::recording()) return false;
  launcher::write_rank();
  return true;
}

void write_end() noexcept {
  threads::retire_all();
  uint64_t end = now_by_system_call_ns(), cpu = sys::process_cpu_ns() - used_before_ns;
  if (spool::life::is_all())
    spool::life::end(end, cpu);
  else
    spool::append(schema::ProcessEnd{.end_ns = end, .cpu_ns = cpu});
}

// Forgets all rows of earlier tables, which are gone.
void forget_rows(fresh_memory::Who who) noexcept {
  trie::clear(who);
  forget_marks();
  modules::forget_rows();
  jit::forget_rows();
  python::forget_rows();
  kernel_shapes::forget_rows();
  kernel_variants::forget_rows();
  device_code::forget_rows();
  calls::forget_rows();
  host_memory::forget_rows();
  all_hooks::forget_rows();
}

// Recording may stop and start again in one process. A tick of the last recording may still be running in some thread.
void forget_last_recording() noexcept {
  constexpr auto kSame = fresh_memory::Who::SAME_PROCESS;
  if (control::await_users(threads::any_uses)) {
    spool::abandon();
    spool::life::abandon();
  } else {
    spool::leave_behind(kSame);
    spool::life::leave_behind();
  }
  forget_rows(kSame);
}

void end(void (*write_devices)() noexcept) noexcept {
  if (!ours()) return;
  write_devices();  // while records still have a place to go
  if (!running.exchange(false)) return;
  write_end();
  control::stop(schema::StopReason::NONE, 0);
}

void tick(Thread& thread, siginfo_t* info, ucontext_t* context) noexcept {
  timers::tick(thread, info, context);
  if (!thread.foreign) all_hooks::tick(now_ns(), static_cast<uint64_t>(context->uc_mcontext.gregs[REG_RIP]));
}

}  // namespace

bool start(const char* profile) noexcept {
  if (running.load(std::memory_order_acquire)) return true;
  if (in_sandbox.load(std::memory_order_relaxed)) return false;
  // Valgrind does not know every instruction of a tick, and reports a tick's reads of the stack as the program's errors.
  if (on_valgrind()) return false;
  if (!profile) profile = getenv("AIFLAME_PROFILE");
  reach::inherit(getenv("AIFLAME_DESCRIPTORS"), profile);
  if (!profile || !control::attach(profile)) return false;
  all_hooks::prepare(preloaded());
  // Most processes have had no recording before: they never touch the memory that forget_last_recording() clears.
  static bool again = false;
  if (std::exchange(again, true)) forget_last_recording();
  owner = own_process_id();
  if (!signals::install(tick) || !open_tables(false)) return false;
  // In a program that runs already another thread, the interpreter's main one, may do our work from here on: it appends rows.
  python::attach();
  running.store(true, std::memory_order_release);
  threads::self();
  threads::adopt_all();
  all_hooks::start();
  host_memory::start();
  return true;
}

void stop() noexcept { end(all_hooks::finish); }

bool attached() noexcept { return by_attach.load(std::memory_order_relaxed); }

bool active() noexcept { return running.load(std::memory_order_relaxed) && control::recording(); }

bool preloaded() noexcept {
  static const bool first = [] { return sys::is_ours(reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, "dlclose"))); }();
  return first;
}

void before_fork() noexcept {
  if (ours() && control::recording()) spool::life::before_fork();
}
void after_fork_parent() noexcept {
  if (ours()) spool::life::after_fork_parent();
}

void after_fork_child() noexcept {
  all_hooks::after_fork_child();
  threads::after_fork();  // also while stopped: a recording that the child starts later must not meet its parent's threads
  if (!running.load(std::memory_order_acquire)) return;
  owner = own_process_id();
  control::forget_users();
  spool::leave_behind(fresh_memory::Who::CHILD);
  forget_rows(fresh_memory::Who::CHILD);
  if (!control::has(schema::Feature::CHILDREN) || !open_tables(true)) {
    running.store(false, std::memory_order_release);
    control::stop(schema::StopReason::NONE, 0);
    return;
  }
  threads::self();
}

void before_exec() noexcept {
  if (!ours() || !control::recording()) return;
  all_hooks::flush_anywhere();
  write_end();
}

void after_failed_exec() noexcept {
  if (!ours() || !control::recording()) return;
  spool::life::reopen();
  threads::adopt_all();
  all_hooks::resume();
}

void before_sandbox() noexcept {
  in_sandbox.store(true, std::memory_order_relaxed);
  if (!ours()) return;
  spool::note("recording ends where the program enters a sandbox (seccomp)");
  detach();
}

void detach() noexcept {
  stop();
  // A tick that was under way meanwhile may have given its thread timers again.
  control::await_users(threads::any_uses);
  threads::retire_all();
  signals::uninstall();
}

// Called by _exit() and exec, which signal handlers may call.
void before_exit() noexcept { end(all_hooks::flush_anywhere); }

}  // namespace aiflame::collector

namespace {

bool loaded = false;

__attribute__((constructor)) void on_load(int count, char** words, char**) {
  loaded = true;
  aiflame::next_definition::Loading loading;
  if (!aiflame::collector::active()) aiflame::spool::life::set_command(count, words);
  aiflame::collector::start(nullptr);
}
__attribute__((destructor)) void on_unload() { aiflame::collector::stop(); }

}  // namespace

void aiflame::collector::start_early() noexcept {
  if (!loaded) start(nullptr);
}

// For recording from inside: 1 when recording began.
int aiflame_start(const char* profile) noexcept {
  if (!aiflame::collector::active()) aiflame::collector::by_attach.store(false, std::memory_order_relaxed);
  return aiflame::collector::start(profile);
}
void aiflame_stop() noexcept { aiflame::collector::stop(); }
// For `aiflame attach`, which calls these in a thread that it has made for them. 1 when recording began, 2 when the process is being recorded
// already. `where`: the profile, as reach::receive() takes it.
int aiflame_attach(const char* where) noexcept {
  if (aiflame::collector::active()) return 2;
  aiflame::collector::stop();  // an earlier recording whose recorder has ended
  const char* profile = aiflame::reach::receive(where);
  if (!profile) return 0;
  aiflame::signals::repeat_ended_calls();
  aiflame::collector::by_attach.store(true, std::memory_order_relaxed);
  bool began = aiflame::collector::start(profile);
  if (!began) aiflame::reach::leave();
  return began;
}
int aiflame_detach(const char*) noexcept {
  aiflame::collector::detach();
  aiflame::reach::leave();
  return 1;
}
// No ticks until aiflame_resume(), in every thread; the recording goes on.
void aiflame_pause() noexcept { aiflame::threads::pause_all(); }
void aiflame_resume() noexcept { aiflame::threads::resume_all(); }
