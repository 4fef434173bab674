#include "spool/life.hpp"

#include "base/large.hpp"
#include "base/own_process.hpp"
#include "base/sys.hpp"
#include "spool/control.hpp"
#include "spool/known_files.hpp"
#include "spool/shared_lives.hpp"
#include "spool/spool.hpp"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <utility>

namespace aiflame::spool::life {

namespace {

SharedLives file;
schema::LifeRecord begun;

// Texts read about this process, with their places in the file. The child of a fork begins like its parent and does not read them again until it
// has its own rows: a look into /proc costs as much as everything else that a short process does here.
struct Fact {
  long (*read)(char* out, size_t room) noexcept;
  uint32_t reference;

  std::string_view view() const noexcept { return file.text(reference); }
  uint32_t write(std::string_view now) noexcept { return reference = file.append(now); }
};

// The arguments lie one after the other, as in /proc/self/cmdline, unless they have been moved.
char** words_at_start = nullptr;
int words_count = 0;

long copy_words(char* out, size_t room) noexcept {
  const char* begin = words_at_start[0];
  const char* end = begin;
  for (int word = 0; word < words_count; word++) {
    if (words_at_start[word] != end) return 0;
    end += strlen(end) + 1;
  }
  size_t length = static_cast<size_t>(end - begin) - 1;
  if (length >= room) return 0;
  memcpy(out, begin, length);
  return static_cast<long>(length);
}

long read_command(char* out, size_t room) noexcept {
  long length = words_count > 0 ? copy_words(out, room) : 0;
  if (!length) length = sys::read_file("/proc/self/cmdline", out, room);
  while (length > 0 && static_cast<size_t>(length) < room && out[length - 1] == 0) length--;
  return length;
}
long read_link(const char* path, char* out, size_t room) noexcept {
  return sys::call(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>(path), reinterpret_cast<long>(out), static_cast<long>(room));
}
long read_exe(char* out, size_t room) noexcept { return read_link("/proc/self/exe", out, room); }
// "(unreachable)…" where the folder lies outside of the root.
long read_cwd(char* out, size_t room) noexcept {
  long length = sys::call(SYS_getcwd, reinterpret_cast<long>(out), static_cast<long>(room));
  return sys::failed(length) ? read_link("/proc/self/cwd", out, room) : length - 1;
}
// The main thread's. Another thread may be the one that records from now on.
long read_name(char* out, size_t room) noexcept {
  if (sys::thread_id() != sys::process_id()) {
    long length = sys::read_file("/proc/self/comm", out, room);
    if (length > 0 && out[length - 1] == '\n') out[--length] = 0;
    return length;
  }
  long result = sys::call(SYS_prctl, PR_GET_NAME, reinterpret_cast<long>(out));
  return sys::failed(result) ? 0 : static_cast<long>(strnlen(out, 16));
}

struct Facts {
  Fact command, exe, cwd, thread_name;
};
constinit Facts facts{{read_command, 0}, {read_exe, 0}, {read_cwd, 0}, {read_name, 0}};

// Threads that fork may have small stacks. Only processes with long command lines touch this memory.
AIFLAME_LARGE char long_text[1 << 16];
template <class Use>
uint32_t with_text(const Fact& fact, Use use) noexcept {
  char few[2048];
  char* text = few;
  long length = fact.read(few, sizeof few);
  if (length == sizeof few) length = fact.read(text = long_text, sizeof long_text);
  return use(std::string_view(text, length > 0 ? static_cast<size_t>(length) : 0));
}
uint32_t shared_text(Fact& fact) noexcept {
  return with_text(fact, [&fact](std::string_view now) { return fact.write(now); });
}

// The kernel's data of the file that was named to exec. While it is the same file and unmodified, so is its path in /proc, whose look-up costs more
// than everything else that we do at the start. 0: not known, as for programs that were found in another way.
uint64_t key_of_program() noexcept {
  auto* named = words_count ? reinterpret_cast<const char*>(getauxval(AT_EXECFN)) : nullptr;
  struct stat program{};
  if (!named || named[0] != '/' || strncmp(named, "/dev/", 5) == 0 || strncmp(named, "/proc/", 6) == 0) return 0;
  long found = sys::call(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>(named), reinterpret_cast<long>(&program), 0);
  if (sys::failed(found)) return 0;
  return key_of(program, named);
}
uint32_t exe_at_start() noexcept {
  Fact& fact = facts.exe;
  if (begun.forked && fact.reference) return fact.reference;
  uint64_t key = key_of_program();
  fact.reference = key ? file.recall(key) : 0;
  if (!fact.view().empty()) return fact.reference;
  uint32_t reference = shared_text(fact);
  if (key) file.remember(key, reference);
  return reference;
}

uint32_t text_at_start(Fact& fact) noexcept { return begun.forked && fact.reference ? fact.reference : shared_text(fact); }

// Usually the same as the parent's: compared without reading the file.
struct Name {
  char text[16];
  bool operator==(std::string_view other) const noexcept { return other == std::string_view(text, strnlen(text, sizeof text)); }
};
Name known_name;
uint32_t name_at_start() noexcept {
  Name now{};
  read_name(now.text, sizeof now.text);
  std::string_view text(now.text, strnlen(now.text, sizeof now.text));
  if (facts.thread_name.reference && known_name == text) return facts.thread_name.reference;
  known_name = now;
  return facts.thread_name.write(text);
}

uint32_t own_text(const Fact& fact) noexcept {
  if (fact.reference && !begun.forked) return text(fact.view());
  return with_text(fact, [&fact](std::string_view now) { return text(now.empty() ? fact.view() : now); });
}

schema::LifeEnd ending;
std::atomic<uint64_t> record{0};  // place of the process's record; 0: it has rows of its own
bool has_row = false;             // the first row of `threads` is the main thread's
std::atomic<bool> thread_taken{false};
thread_local uint64_t spare;  // for the child of the fork that the thread is about to make

bool write_record() noexcept {
  control::Use use;
  uint64_t reserved = std::exchange(spare, 0);
  if (!reserved) reserved = file.reserve();
  Life* place = file.at(reserved);
  if (!place) return false;
  begun.command = text_at_start(facts.command);
  begun.exe = exe_at_start();
  begun.cwd = text_at_start(facts.cwd);
  begun.thread_name = name_at_start();
  if (!begun.exe && !begun.command) return false;  // no text could be written
  write_row(&place->begin, &begun, sizeof begun);
  has_row = true;
  thread_taken.store(false, std::memory_order_relaxed);
  record.store(reserved, std::memory_order_release);
  return true;
}

}  // namespace

void set_command(int count, char** words) noexcept {
  words_at_start = words;
  words_count = words && words[0] ? count : 0;
}

void begin(uint64_t start_ns, uint32_t python, bool forked) noexcept {
  record.store(0, std::memory_order_relaxed);
  has_row = false;
  thread_taken.store(true, std::memory_order_relaxed);
  if (forked) file.after_fork();
  begun = {.pid = own_process_id(), .ppid = static_cast<uint32_t>(sys::call(SYS_getppid)), .python = python, .start_ns = start_ns, .forked = forked};
  ending = {};
  if (!write_record()) prepare_folder();
  words_count = 0;  // the program may change them from here on
}

bool has_main_thread() noexcept { return has_row; }

bool is_all() noexcept { return record.load(std::memory_order_acquire) != 0; }

bool take_thread(uint32_t tid) noexcept { return tid == begun.pid && !thread_taken.exchange(true, std::memory_order_relaxed); }

void end_thread(std::string_view name, uint64_t end_ns, uint64_t cpu_ns) noexcept {
  ending.thread_name = known_name == name ? begun.thread_name : file.append(name);
  ending.thread_end_ns = end_ns;
  ending.thread_cpu_ns = cpu_ns;
}

void end(uint64_t end_ns, uint64_t cpu_ns) noexcept {
  control::Use use;
  Life* place = file.at(record.load(std::memory_order_acquire));
  if (!place || !control::recording()) return;
  ending.end_ns = end_ns;
  ending.cpu_ns = cpu_ns;
  write_row(&place->end, &ending, sizeof ending);
}

void reopen() noexcept {
  control::Use use;
  Life* place = file.at(record.load(std::memory_order_acquire));
  if (!place) return;
  std::atomic_ref(place->end.commit).store(0, std::memory_order_relaxed);
  ending = {};
  thread_taken.store(false, std::memory_order_relaxed);
}

void write_rows() noexcept {
  if (!begun.pid) return;
  control::Use use;
  append(
      schema::ProcessRecord{
          .pid = begun.pid,
          .ppid = begun.ppid,
          .start_ns = begun.start_ns,
          .command = own_text(facts.command),
          .exe = own_text(facts.exe),
          .cwd = own_text(facts.cwd),
          .python = begun.python,
          .forked = begun.forked,
      },
      use);
  if (!record.exchange(0, std::memory_order_acq_rel)) return;
  schema::ThreadRecord thread{.tid = begun.pid, .start_ns = begun.start_ns, .name = own_text(facts.thread_name)};
  if (void* row = table(schema::ThreadRecord::kTable).first()) write_row(row, &thread, sizeof thread);
  if (ending.thread_end_ns)
    append(
        schema::ThreadEnd{.thread = kMainThread, .name = own_text(facts.thread_name), .end_ns = ending.thread_end_ns, .cpu_ns = ending.thread_cpu_ns},
        use);
}

uint32_t recall(uint64_t key) noexcept { return file.recall(key); }
void remember(uint64_t key, uint32_t value) noexcept { file.remember(key, value); }

void before_fork() noexcept {
  control::Use use;
  spare = control::has(schema::Feature::CHILDREN) ? file.reserve() : 0;
}

void after_fork_parent() noexcept { spare = 0; }

namespace {
void forget_texts() noexcept {
  for (Fact* fact : {&facts.command, &facts.exe, &facts.cwd, &facts.thread_name}) fact->reference = 0;
}
}  // namespace

void abandon() noexcept {
  file.abandon();
  forget_texts();
}

void leave_behind() noexcept {
  file.leave_behind();
  forget_texts();
}

bool covers(uint64_t address) noexcept { return file.covers(address); }

bool overlaps(uint64_t address, uint64_t bytes) noexcept { return file.overlaps(address, bytes); }

bool map_again(uint64_t address) noexcept { return file.map_again(address); }

void map_missing() noexcept { file.map_missing(); }

}  // namespace aiflame::spool::life
