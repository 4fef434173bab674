#include "hooks/python/bridge.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/scratch.hpp"
#include "base/sys.hpp"
#include "hooks/python/functions.hpp"
#include "sampler/signals.hpp"
#include "spool/control.hpp"
#include "spool/reach.hpp"
#include "spool/spool.hpp"
#include "unwind/modules.hpp"
#include "unwind/python_frames.hpp"
#include "unwind/python_layers.hpp"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace aiflame::bridge {

namespace {

constexpr const char* kBootstrap = "_aiflame_target.bootstrap";

// Under the GIL.
Object ours = nullptr, bootstrap = nullptr;
void* library = nullptr;  // where the interpreter's symbols are; null is RTLD_DEFAULT
bool library_known = false;
bool tried = false;

std::atomic<bool> made{false};     // the bootstrap has run
std::atomic<bool> anew{false};     // recording has begun again since: rows are new
std::atomic<bool> waiting{false};  // a pending call of ours is under way
std::atomic<uint64_t> look_at{0};  // when the bootstrap was last asked to look around
constexpr uint64_t kLookEvery = 1'000'000'000;

bool wanted() noexcept { return control::recording() && control::has(schema::Feature::MEANING); }

// The program's errno and its current exception stay as they are.
class Aside {
 public:
  Aside() noexcept : errno_(errno) {
    py.take_error(&type_, &value_, &trace_);
    if (hides()) py.enter_tracing(state_ = py.thread_state());
  }
  ~Aside() {
    if (hides()) py.leave_tracing(state_);
    // An exception that a signal handler of the program raised while our Python ran (Ctrl-C, say) is the program's.
    if (type_ || !py.error()) py.put_error(type_, value_, trace_);
    errno = errno_;
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

 private:
  static bool hides() noexcept { return py.thread_state && py.enter_tracing && py.leave_tracing; }

  int errno_;
  Object state_ = nullptr, type_ = nullptr, value_ = nullptr, trace_ = nullptr;
};

// The UTF-8 of str(object), cut.
void copy_text(Object object, char* out, size_t room) noexcept {
  Held text(object ? py.text_of(object) : nullptr);
  Held bytes(text ? py.encode(text.get(), "utf-8", "backslashreplace") : nullptr);
  char* data = nullptr;
  intptr_t length = 0;
  bool good = bytes && py.bytes(bytes.get(), &data, &length) == 0;
  snprintf(out, room, "%.*s", good ? static_cast<int>(length) : 0, good ? data : "");
  for (char* at = out; *at; at++)
    if (*at == '\n') *at = ' ';
  py.clear_error();
}

// Where an exception was raised: the innermost frame's file and line.
void copy_place(Object trace, char* out, size_t room) noexcept {
  Held at(trace);
  if (trace) py.hold(trace);
  for (Held next(trace ? py.attribute(trace, "tb_next") : nullptr); next && next.get() != py.none;) {
    at.replace(next.give());
    next.replace(py.attribute(at.get(), "tb_next"));
  }
  Held line(at ? py.attribute(at.get(), "tb_lineno") : nullptr), frame(at ? py.attribute(at.get(), "tb_frame") : nullptr);
  Held code(frame ? py.attribute(frame.get(), "f_code") : nullptr);
  Held file(code ? py.attribute(code.get(), "co_filename") : nullptr);
  char path[PATH_MAX], number[16];
  copy_text(file.get(), path, sizeof path);
  copy_text(line.get(), number, sizeof number);
  const char* name = strrchr(path, '/');
  snprintf(out, room, "%.200s:%.15s", name ? name + 1 : path, number);
}

// An Exception becomes a note. Other exceptions (KeyboardInterrupt, SystemExit) are the program's: they stay set, and the result is -1.
int settle() noexcept {
  if (!py.error()) return 0;
  if (!py.error_is(*py.exception)) return -1;
  Object type, value, trace;
  py.take_error(&type, &value, &trace);
  py.complete_error(&type, &value, &trace);
  Held type_held(type), value_held(value), trace_held(trace);
  Held named(type ? py.attribute(type, "__name__") : nullptr);
  char place[256], name[128], text[512], line[1024];
  copy_place(trace, place, sizeof place);
  copy_text(named.get(), name, sizeof name);
  copy_text(value, text, sizeof text);
  snprintf(line, sizeof line, "Python of aiflame's in the program failed at %s: %s: %s", place, name, text);
  spool::note(line);
  py.clear_error();
  return 0;
}

// Where the bootstrap's text is, and the name of its file. In a program that sees other files than the recorder the text was sent, and has the other
// modules' texts before it; no file can have that name.
struct Text {
  char path[PATH_MAX], name[PATH_MAX];
};

// lib/libaiflame.so → target/bootstrap.py beside it, wherever links lead.
bool find_beside_us(char* out, size_t room) noexcept {
  Dl_info info;
  char path[PATH_MAX];
  if (!dladdr(reinterpret_cast<void*>(&find_beside_us), &info) || !info.dli_fname || !realpath(info.dli_fname, path)) return false;
  for (int up = 0; up < 2; up++) {
    char* slash = strrchr(path, '/');
    if (!slash) return false;
    *slash = 0;
  }
  return static_cast<size_t>(snprintf(out, room, "%s/target/bootstrap.py", path)) < room;
}

bool find_bootstrap(Text* out) noexcept {
  if (const char* sent = reach::python_path()) {
    strcpy(out->path, sent);
    strcpy(out->name, "/proc/aiflame/target/bootstrap.py");
    return true;
  }
  if (!find_beside_us(out->path, sizeof out->path)) return false;
  strcpy(out->name, out->path);
  return true;
}

// Compiled here, not imported: the program's import path and its finders have no part in it.
Object compile(const Text& text) noexcept {
  Scratch scratch;
  if (!scratch.data()) return nullptr;
  long length = sys::read_file(text.path, scratch.data(), scratch.size() - 1);
  if (length < 0) {
    spool::note("layers, steps and names of kernels are not known: target/bootstrap.py is missing beside libaiflame.so: reinstall aiflame");
    return nullptr;
  }
  scratch.data()[length] = 0;
  return py.compile(scratch.data(), text.name, kFileInput);
}

bool set_facts() noexcept {
  Held features(py.new_number(control::page().features)), profile(py.new_text(control::profile_path()));
  return features && profile && py.set_attribute(ours, "features", features.get()) == 0 && py.set_attribute(ours, "profile", profile.get()) == 0;
}

bool make_module() noexcept {
  Held module(py.new_module("_aiflame"));
  if (!module || !add_functions(module.get()) || py.set_dict_item(py.modules(), "_aiflame", module.get()) != 0) return false;
  ours = module.give();
  return set_facts();
}

bool run_bootstrap() noexcept {
  Text text;
  if (!find_bootstrap(&text)) return false;
  Held code(compile(text)), module(code ? py.new_module(kBootstrap) : nullptr), file(module ? py.new_text(text.name) : nullptr);
  if (!file) return false;
  Object globals = py.module_dict(module.get());
  if (py.set_dict_item(globals, "__builtins__", py.builtins()) != 0 || py.set_dict_item(globals, "__file__", file.get()) != 0) return false;
  if (py.set_dict_item(py.modules(), kBootstrap, module.get()) != 0) return false;
  Held result(py.evaluate(code.get(), globals, globals));
  if (!result) return false;
  bootstrap = module.give();
  return true;
}

void call_bootstrap(const char* function) noexcept {
  Held callable(bootstrap ? py.attribute(bootstrap, function) : nullptr);
  if (callable) Held(py.call(callable.get(), nullptr));
}

// A code range that may run while CPython's lock for pending calls is held: the interpreter, or the library in which it waits for that
// lock.
struct Range {
  uint64_t low, high;
};
AIFLAME_LARGE Range holders[16];
std::atomic<size_t> holder_count{0};

void add_holder(const void* code) noexcept {
  modules::Module module;
  size_t count = holder_count.load(std::memory_order_relaxed);
  if (!code || count == std::size(holders) || !modules::find(reinterpret_cast<uint64_t>(code), &module)) return;
  for (size_t at = 0; at < count; at++)
    if (holders[at].low == module.low) return;
  holders[count] = {module.low, module.high};
  holder_count.store(count + 1, std::memory_order_release);
}

// Called again once the interpreter is found: a program that embeds one may have loaded it late.
void find_holders() noexcept {
  add_holder(dlsym(library, "Py_AddPendingCall"));
  for (const char* name : {"sem_wait", "sem_trywait", "sem_clockwait", "sem_timedwait", "sem_post", "pthread_mutex_lock", "pthread_mutex_unlock",
                           "pthread_cond_wait", "pthread_cond_signal", "clock_gettime", "__tls_get_addr", "malloc", "syscall"}) {
    add_holder(dlsym(RTLD_DEFAULT, name));
    add_holder(dlsym(RTLD_NEXT, name));
  }
  add_holder(reinterpret_cast<const void*>(&find_holders));
  add_holder(reinterpret_cast<const void*>(getauxval(AT_SYSINFO_EHDR)));
}

// The first call. Rows of a recording before this do not matter.
int begin() noexcept {
  tried = true;
  find_holders();
  anew.store(false, std::memory_order_relaxed);
  look_at.store(now_ns(), std::memory_order_relaxed);
  if (make_module() && run_bootstrap()) made.store(true, std::memory_order_release);
  return settle();
}

int look_around(uint64_t now) noexcept {
  if (now - look_at.load(std::memory_order_relaxed) < kLookEvery) return 0;
  look_at.store(now, std::memory_order_relaxed);
  call_bootstrap("look_around");
  return settle();
}

int ask_for_names(uint64_t now) noexcept {
  if (!python::layers::names_are_due(now)) return 0;
  python::layers::names_are_asked(now);
  Held callable(layers_are_new());
  if (!callable) return 0;
  py.hold(callable.get());
  Held(py.call(callable.get(), nullptr));
  return settle();
}

// Does all that the interpreter is to do for us now; 3.10 and 3.11 run a pending call in the interpreter of the thread that added it.
int serve() noexcept {
  static const bool complete = find_abi(library);
  if (!complete) {
    spool::note("layers, steps and names of kernels are not known: this interpreter lacks functions of CPython's stable C API");
    return 0;
  }
  if (py.current_interpreter() != py.main_interpreter() || (py.is_ending && py.is_ending())) return 0;
  Aside aside;
  if (!tried) return begin();
  if (!made.load(std::memory_order_relaxed)) return 0;
  if (anew.exchange(false) && set_facts()) call_bootstrap("recording_began");
  int result = settle();
  uint64_t now = now_ns();
  if (result == 0) result = look_around(now);
  return result == 0 ? ask_for_names(now) : result;
}

int on_pending_call(void*) noexcept {
  waiting.store(false, std::memory_order_release);
  return library_known && wanted() ? serve() : 0;
}

// With the self-test: the interpreter is known to work.
int on_main_thread(const python::Api& api) noexcept {
  {
    signals::FaultsOpen faults;
    if (!python::test_self()) return 0;
  }
  library = api.library;
  library_known = true;
  return wanted() ? serve() : 0;
}

bool is_due(uint64_t now) noexcept {
  return anew.load(std::memory_order_relaxed) || now - look_at.load(std::memory_order_relaxed) >= kLookEvery || python::layers::names_are_due(now);
}

// Only the main thread asks. It alone runs pending calls, so another thread would gain nothing; and while it stands in a call of ours the
// interpreter is not taken down, after which there is none to ask.
void ask() noexcept {
  if (sys::thread_id() != sys::process_id() || waiting.exchange(true, std::memory_order_acq_rel)) return;
  int kept = errno;
  if (!python::call_soon(on_pending_call)) waiting.store(false, std::memory_order_release);
  errno = kept;
}

// The interrupted code does not hold the lock: it runs in a library that neither the interpreter nor anything beneath it calls while it
// does. (We ignore code that a signal handler of the program may have interrupted: CPython's own handler only sets a flag, and is in its
// library.)
bool is_elsewhere(uint64_t pc) noexcept {
  size_t count = holder_count.load(std::memory_order_acquire);
  if (count == 0) return false;
  for (size_t at = 0; at < count; at++)
    if (pc >= holders[at].low && pc < holders[at].high) return false;
  modules::Module module;
  return modules::find_known(pc, &module) && module.id != 0;
}

}  // namespace

void prepare() noexcept { python::test_on_main_thread(on_main_thread); }

void start() noexcept {
  if (!wanted()) return;
  // In a program that runs already. A preloaded library is here before its interpreter: the self-test's call is ours then.
  waiting.store(python::call_soon(on_pending_call), std::memory_order_release);
}

void poke(uint64_t now) noexcept {
  if (made.load(std::memory_order_acquire) && is_due(now) && wanted()) ask();
}

void poke_in_tick(uint64_t now, uint64_t pc) noexcept {
  if (made.load(std::memory_order_acquire) && is_due(now) && is_elsewhere(pc)) poke(now);
}

// The pending call may have been the parent's.
void forget_rows() noexcept {
  waiting.store(false, std::memory_order_relaxed);
  anew.store(true, std::memory_order_relaxed);
}

}  // namespace aiflame::bridge
