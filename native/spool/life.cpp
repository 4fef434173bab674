#include "spool/life.hpp"

#include "base/sys.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <cstdio>

namespace aiflame::spool::life {

namespace {

constexpr uint32_t kLivesTable = 0xfffe;

struct Life {
  schema::LifeRecord begin;
  schema::LifeEnd end;
};

char folder[420];
TableFile lives, texts;

// A text of this process's, and its place in `texts`. The child of a fork has most of them in common with its parent: they are written once, and
// pages that are only read are not copied.
template <size_t kRoom>
struct Fact {
  uint32_t length, reference;
  char bytes[kRoom];

  std::string_view view() const noexcept { return {bytes, length}; }
  void set(std::string_view now) noexcept {
    if (now == view()) return;
    length = static_cast<uint32_t>(now.size());
    memcpy(bytes, now.data(), length);
    reference = 0;
  }
  uint32_t write() noexcept {
    if (!reference) {
      if (uint32_t written = append_text(texts, view())) reference = written;
    }
    return reference;
  }
};
Fact<1 << 16> command;
Fact<4096> exe, cwd;
Fact<16> thread_name;

schema::LifeRecord begun;
schema::LifeEnd ending;
std::atomic<Life*> record{nullptr};  // null: it has rows of its own
std::atomic<bool> thread_taken{false};

void look_at_command() noexcept {
  char few[512];
  long length = sys::read_file("/proc/self/cmdline", few, sizeof few);
  if (length == sizeof few) {
    length = sys::read_file("/proc/self/cmdline", command.bytes, sizeof command.bytes);
    while (length > 0 && command.bytes[length - 1] == 0) length--;
    command.length = length > 0 ? static_cast<uint32_t>(length) : 0;
    command.reference = 0;
    return;
  }
  while (length > 0 && few[length - 1] == 0) length--;
  command.set({few, length > 0 ? static_cast<size_t>(length) : 0});
}

void look_at_link(const char* path, Fact<4096>* fact) noexcept {
  char target[sizeof fact->bytes];
  long length = sys::call(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>(path), reinterpret_cast<long>(target), sizeof target);
  fact->set({target, length > 0 ? static_cast<size_t>(length) : 0});
}

void look_at_name() noexcept {
  char name[16] = "";
  sys::call(SYS_prctl, PR_GET_NAME, reinterpret_cast<long>(name));
  thread_name.set({name, strnlen(name, sizeof name)});
}

void open_files() noexcept {
  snprintf(folder, sizeof folder, "%s/spool", control::profile_path());
  lives.open_shared(folder, "lives", kLivesTable, sizeof(Life));
  texts.open_shared(folder, "texts", kStringsTable, 8);
}

// It is everybody's record until here.
bool write_record() noexcept {
  control::Use use;
  uint64_t index;
  auto* place = static_cast<Life*>(lives.reserve(1, &index));
  if (!place) return false;
  begun.command = command.write();
  begun.exe = exe.write();
  begun.cwd = cwd.write();
  begun.thread_name = thread_name.write();
  write_row(&place->begin, &begun, sizeof begun);
  table(schema::ThreadRecord::kTable).keep_first();
  thread_taken.store(false, std::memory_order_relaxed);
  record.store(place, std::memory_order_release);
  return true;
}

}  // namespace

void begin(uint64_t start_ns, uint32_t python, bool forked) noexcept {
  record.store(nullptr, std::memory_order_relaxed);
  thread_taken.store(true, std::memory_order_relaxed);
  if (!folder[0]) open_files();
  look_at_command();
  look_at_link("/proc/self/exe", &exe);
  look_at_link("/proc/self/cwd", &cwd);
  look_at_name();
  begun = {.pid = sys::process_id(), .ppid = static_cast<uint32_t>(sys::call(SYS_getppid)), .python = python, .start_ns = start_ns, .forked = forked};
  ending = {};
  if (!write_record()) prepare_folder();
}

bool is_all() noexcept { return record.load(std::memory_order_acquire) != nullptr; }

bool take_thread(uint32_t tid) noexcept { return tid == begun.pid && !thread_taken.exchange(true, std::memory_order_relaxed); }

void end_thread(std::string_view name, uint64_t end_ns, uint64_t cpu_ns) noexcept {
  if (name != thread_name.view()) ending.thread_name = append_text(texts, name);
  else ending.thread_name = begun.thread_name;
  ending.thread_end_ns = end_ns;
  ending.thread_cpu_ns = cpu_ns;
}

void end(uint64_t end_ns, uint64_t cpu_ns) noexcept {
  control::Use use;
  Life* place = record.load(std::memory_order_acquire);
  if (!place || !control::recording()) return;
  ending.end_ns = end_ns;
  ending.cpu_ns = cpu_ns;
  write_row(&place->end, &ending, sizeof ending);
}

void reopen() noexcept {
  control::Use use;
  Life* place = record.load(std::memory_order_acquire);
  if (!place) return;
  std::atomic_ref(place->end.commit).store(0, std::memory_order_relaxed);
  ending = {};
  thread_taken.store(false, std::memory_order_relaxed);
}

void write_rows() noexcept {
  if (!begun.pid) return;
  control::Use use;
  append(schema::ProcessRecord{
             .pid = begun.pid,
             .ppid = begun.ppid,
             .start_ns = begun.start_ns,
             .command = text(command.view(), use),
             .exe = text(exe.view(), use),
             .cwd = text(cwd.view(), use),
             .python = begun.python,
             .forked = begun.forked,
         },
         use);
  if (!record.exchange(nullptr, std::memory_order_acq_rel)) return;
  schema::ThreadRecord thread{.tid = begun.pid, .start_ns = begun.start_ns, .name = text(thread_name.view(), use)};
  if (void* row = table(schema::ThreadRecord::kTable).first()) write_row(row, &thread, sizeof thread);
  if (ending.thread_end_ns)
    append(schema::ThreadEnd{.thread = kMainThread, .name = text(thread_name.view(), use), .end_ns = ending.thread_end_ns, .cpu_ns = ending.thread_cpu_ns}, use);
}

void abandon() noexcept {
  lives.abandon();
  texts.abandon();
  leave_behind();
}

void leave_behind() noexcept {
  lives.leave_behind();
  texts.leave_behind();
  folder[0] = 0;
  command.reference = exe.reference = cwd.reference = thread_name.reference = 0;
}

bool covers(uint64_t address) noexcept { return lives.covers(address) || texts.covers(address); }

}  // namespace aiflame::spool::life
