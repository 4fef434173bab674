// Writes records whose content is known by construction, in the ways that a spool must survive. test_spool.py reads them back.
//
//   spool_writer PROFILE crowd THREADS RECORDS   threads and a signal handler append at once, then all ends in order
//   spool_writer PROFILE crowd THREADS 0         the same without end, until the test kills us; prints how many records it has written
//   spool_writer PROFILE forks CHILDREN          the parent appends while children fork off, append and end
//   spool_writer PROFILE sharers RECORDS         a child of fork that never leaves its parent's tables: both append to them
//   spool_writer PROFILE starved RECORDS         no descriptors can be had for the second third of the records
//   spool_writer PROFILE resident RECORDS        one thread appends; how many kilobytes of files then count as this process's memory
//   spool_writer PROFILE unmapped                tables are unmapped, whose addresses the kernel gives to the next table
//   spool_writer PROFILE texts                   strings of every length that matters
//   spool_writer PROFILE notes TEXTS             as many notes, each added twice; the same into new tables
//   spool_writer PROFILE stacks NODES            nodes of stacks, where no memory is left to find them again; exits with 5 when one is lost
//   spool_writer PROFILE booked BYTES            books the memory that it can do without, then as much again; exits with 5 when that fits
//   spool_writer PROFILE ring SECONDS RATE THREADS   samples of so many seconds, on a clock of our own; each 30 s of it, prints the time (and at the
//   end
//                                                how many kilobytes of files count as our memory) and waits for a line
//   spool_writer PROFILE cost TABLE RECORDS      nanoseconds an append, as JSON
// crowd-in-rows, forks-in-rows: the same, each thread in rows of its own.
#include "base/clock.hpp"
#include "base/sys.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"
#include "unwind/stack_trie.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace aiflame;

namespace {

constexpr uint64_t kWriters = 64;  // the last one is the signal handler

// How many records each writer has finished: in memory that outlives a SIGKILL because the parent holds it too.
std::atomic<uint64_t>* finished;

// Whether a thread appends in rows of its own.
bool own_rows;
thread_local spool::Rows<schema::CopyRecord> rows;

// Record n of writer w: every field follows from (w, n), so a reader recognizes a wrong one.
bool append(uint64_t writer, uint64_t number) noexcept {
  schema::CopyRecord record{
      .kind = static_cast<uint32_t>(writer),
      .correlation = number,
      .start_ns = number * 5,
      .end_ns = ~number >> 2,
      .bytes = number ^ writer << 55,
      .stream = static_cast<uint32_t>(number * 3),
  };
  bool written = own_rows ? rows.append(record) : spool::append(record) != 0;
  if (written) finished[writer].fetch_add(1, std::memory_order_release);
  return written;
}

void on_tick(int) { append(kWriters - 1, finished[kWriters - 1].load(std::memory_order_relaxed)); }

void start_ticks() {
  signal(SIGPROF, on_tick);
  itimerval often{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &often, nullptr);
}

void write_process(bool forked) {
  char name[32];
  int length = snprintf(name, sizeof name, "writer %u", sys::process_id());
  spool::append(schema::ProcessRecord{
      .pid = sys::process_id(),
      .ppid = static_cast<uint32_t>(getppid()),
      .start_ns = now_ns(),
      .command = spool::text({name, static_cast<size_t>(length)}),
      .forked = forked,
  });
}

void write_end() { spool::append(schema::ProcessEnd{.end_ns = now_ns(), .cpu_ns = 1}); }

// Only one thread takes the handler's signals, so that the handler's numbers are in order.
void block_ticks() {
  sigset_t ticks;
  sigemptyset(&ticks);
  sigaddset(&ticks, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &ticks, nullptr);
}

// The first thread is sent a signal every 300 µs: more often than a large piece of a file takes to reserve on tmpfs.
void crowd(uint64_t threads, uint64_t records) {
  std::vector<std::thread> crowd;
  std::atomic<uint64_t> at_work{threads};
  signal(SIGPROF, on_tick);
  for (uint64_t writer = 0; writer < threads; writer++) {
    crowd.emplace_back([=, &at_work] {
      if (writer > 0) block_ticks();
      for (uint64_t number = 0; (records == 0 || number < records) && append(writer, number); number++) {
      }
      at_work--;
    });
  }
  while (at_work > 0) {
    timespec moment{0, 300'000};
    nanosleep(&moment, nullptr);
    pthread_kill(crowd[0].native_handle(), SIGPROF);
  }
  for (std::thread& thread : crowd) thread.join();
}

// A SIGKILLed child cannot say how far it came; its parent, which shares the counters, can.
int crowd_until_killed(uint64_t threads) {
  pid_t child = fork();
  if (child == 0) {
    spool::open(now_ns());
    write_process(true);
    crowd(threads, 0);
    _exit(0);
  }
  printf("%d\n", child);
  fflush(stdout);
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  for (uint64_t writer = 0; writer < kWriters; writer++) printf("%llu\n", static_cast<unsigned long long>(finished[writer].load()));
  return 0;
}

void forks(uint64_t children) {
  start_ticks();
  std::atomic<bool> done{false};
  std::thread busy([&] {
    block_ticks();
    for (uint64_t number = 0; !done; number++) append(0, number);
  });
  for (uint64_t child = 1; child <= children; child++) {
    pid_t pid = fork();
    if (pid == 0) {
      signal(SIGPROF, SIG_IGN);
      spool::abandon();
      control::forget_stop();
      spool::open(now_ns());
      write_process(true);
      finished[child] = 0;
      for (uint64_t number = 0; number < 5000; number++) append(child, number);
      write_end();
      _exit(0);
    }
    if (child % 4 == 0) {
      while (wait(nullptr) > 0) {
      }
    }
  }
  while (wait(nullptr) > 0 || errno == EINTR) {
  }
  done = true;
  busy.join();
  itimerval never{};
  setitimer(ITIMER_PROF, &never, nullptr);
}

void sharers(uint64_t records) {
  pid_t child = fork();
  for (uint64_t number = 0; number < records; number++) append(child == 0, number);
  if (child == 0) _exit(0);
  wait(nullptr);
}

void starved(uint64_t records) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none{0, before.rlim_max};
  for (uint64_t number = 0; number < records; number++) {
    if (number == records / 3) setrlimit(RLIMIT_NOFILE, &none);
    if (number == records / 3 * 2) setrlimit(RLIMIT_NOFILE, &before);
    append(0, number);
  }
}

// Page tables included.
unsigned long kilobytes_of_files() {
  FILE* file = fopen("/proc/self/status", "r");
  unsigned long kilobytes = 0, found = 0;
  for (char line[256]; file && fgets(line, sizeof line, file);)
    if (sscanf(line, "RssFile: %lu", &found) == 1 || sscanf(line, "RssShmem: %lu", &found) == 1 || sscanf(line, "VmPTE: %lu", &found) == 1)
      kilobytes += found;
  if (file) fclose(file);
  return kilobytes;
}

void resident(uint64_t records) {
  for (uint64_t number = 0; number < records; number++) append(0, number);
  printf("%lu\n", kilobytes_of_files());
}

// The last thread has one sample a minute: its rows lie among those of the others, and are filled long after them.
void ring(uint64_t seconds, uint64_t rate, uint64_t threads) {
  constexpr uint64_t kSecond = 1'000'000'000, kLook = 30;
  const uint64_t begin = now_ns();
  std::vector<spool::Rows<schema::CpuSample>> rows_of(threads);
  for (uint64_t thread = 1; thread <= threads; thread++) spool::append(schema::ThreadRecord{.tid = static_cast<uint32_t>(thread), .start_ns = begin});
  spool::append(schema::StackNode{.parent = 0, .frame = 77});
  for (uint64_t second = 0; second < seconds; second++) {
    for (uint64_t tick = 0; tick < rate; tick++) {
      for (uint64_t thread = 0; thread < threads; thread++) {
        if (thread + 1 == threads && (tick > 0 || second % 60 > 0)) continue;
        rows_of[thread].append({.thread = static_cast<uint32_t>(thread + 1),
                                .stack = 1,
                                .weight = 1,
                                .sequence = static_cast<uint32_t>(second),
                                .time_ns = begin + second * kSecond + tick * (kSecond / rate),
                                .period_ns = static_cast<uint32_t>(kSecond / rate)});
      }
    }
    if (second % kLook != kLook - 1) continue;
    printf("%llu %lu\n", static_cast<unsigned long long>(begin + (second + 1) * kSecond), second + kLook >= seconds ? kilobytes_of_files() : 0);
    fflush(stdout);
    if (getchar() == EOF) return;
  }
}

void write_text(std::string_view text) { spool::append(schema::MarkRecord{.text = spool::text(text)}); }

void texts() {
  for (size_t length = 0; length <= 40; length++) write_text(std::string(length, static_cast<char>('a' + length % 26)));
  write_text(std::string("nul\0inside", 10));
  write_text("not utf-8: \xff\xfe");
  write_text("\xe2\x82\xac");
  for (size_t length : {65519u, 65528u, 65536u, 1u << 20, (1u << 20) + 1}) write_text(std::string(length, 'L'));
  for (int number = 0; number < 20000; number++) write_text("text " + std::to_string(number));
}

void unmap_tables() {
  FILE* file = fopen("/proc/self/maps", "r");
  std::vector<std::pair<unsigned long, unsigned long>> tables;
  unsigned long begin, end;
  for (char line[512]; file && fgets(line, sizeof line, file);)
    if (strstr(line, ".table") && sscanf(line, "%lx-%lx", &begin, &end) == 2) tables.emplace_back(begin, end - begin);
  if (file) fclose(file);
  for (auto [address, bytes] : tables) munmap(reinterpret_cast<void*>(address), bytes);
}

void unmapped() {
  append(0, 0);
  write_text("before");
  unmap_tables();
  spool::append(schema::ThreadRecord{.tid = 7, .start_ns = 5});
  append(0, 1);
  write_text("after");
}

void notes(uint64_t texts) {
  for (int recording = 0; recording < 2; recording++) {
    if (recording > 0) {
      spool::abandon();
      spool::open(now_ns());
      write_process(false);
    }
    for (uint64_t number = 0; number < 2 * texts; number++) spool::note("note " + std::to_string(number % texts));
  }
}

// Room for the table to grow, and none for the trie's next level.
void leave_little_memory() {
  FILE* file = fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  if (!file || fscanf(file, "%lu", &pages) != 1) exit(6);
  fclose(file);
  rlimit little{};
  getrlimit(RLIMIT_AS, &little);
  little.rlim_cur = pages * 4096 + (1 << 20);
  setrlimit(RLIMIT_AS, &little);
}

bool all_stacks_are_kept(uint64_t nodes) {
  trie::node(0, 1);
  leave_little_memory();
  for (uint64_t number = 2; number <= nodes; number++)
    if (uint32_t node = trie::node(0, number); !node || trie::node(0, number) != node) return false;
  return true;
}

bool fits_twice(uint64_t bytes) { return control::try_take(bytes) && control::try_take(bytes); }

// CPU time of this thread, so that others on the machine do not count.
template <class Work>
double cost_of(uint64_t times, Work work) {
  uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  for (uint64_t number = 0; number < times; number++) work();
  return static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / static_cast<double>(times);
}

void cost(const char* what, uint64_t times) {
  double ns = 0;
  if (!strcmp(what, "cpu_samples")) ns = cost_of(times, [] { spool::append(schema::CpuSample{.thread = 1, .stack = 7, .weight = 1, .time_ns = 5}); });
  if (!strcmp(what, "stacks")) ns = cost_of(times, [] { spool::append(schema::StackNode{.parent = 0, .frame = 77}); });
  if (!strcmp(what, "kernels")) ns = cost_of(times, [] { spool::append(schema::KernelRecord{.shape = 1, .correlation = 5}); });
  if (!strcmp(what, "copies")) ns = cost_of(times, [] { spool::append(schema::CopyRecord{.correlation = 5}); });
  if (!strcmp(what, "copies in rows")) ns = cost_of(times, [] { rows.append(schema::CopyRecord{.correlation = 5}); });
  if (!strcmp(what, "known text")) ns = cost_of(times, [] { spool::text("torch/nn/modules/module.py:_call_impl"); });
  if (!strcmp(what, "write(2)")) {  // the peer: a system call a record into a file
    char record[32] = {};
    int file = open((std::string(control::profile_path()) + "/peer").c_str(), O_CREAT | O_WRONLY, 0600);
    ns = cost_of(times, [&] { (void)!::write(file, record, sizeof record); });
    close(file);
  }
  printf("{\"what\": \"%s\", \"records\": %llu, \"ns\": %.2f}\n", what, static_cast<unsigned long long>(times), ns);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  std::string what = arguments[2];
  constexpr std::string_view kInRows = "-in-rows";
  own_rows = what.ends_with(kInRows);
  if (own_rows) what.resize(what.size() - kInRows.size());
  auto number = [&](int at) { return count > at ? strtoull(arguments[at], nullptr, 10) : 0; };
  void* shared = mmap(nullptr, kWriters * sizeof *finished, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  finished = static_cast<std::atomic<uint64_t>*>(shared);
  if (!control::attach(arguments[1])) return 3;
  if (what == "crowd" && number(4) == 0) return crowd_until_killed(number(3));
  spool::open(now_ns());
  write_process(false);
  if (what == "crowd") crowd(number(3), number(4));
  if (what == "forks") forks(number(3));
  if (what == "sharers") sharers(number(3));
  if (what == "starved") starved(number(3));
  if (what == "resident") resident(number(3));
  if (what == "ring") ring(number(3), number(4), number(5));
  if (what == "unmapped") unmapped();
  if (what == "texts") texts();
  if (what == "notes") notes(number(3));
  if (what == "stacks" && !all_stacks_are_kept(number(3))) return 5;
  if (what == "booked" && fits_twice(number(3))) return 5;
  if (what == "booked") append(0, 0);
  if (what == "cost") cost(arguments[3], number(4));
  write_end();
  for (uint64_t writer = 0; what != "cost" && writer < kWriters; writer++) printf("%llu\n", static_cast<unsigned long long>(finished[writer].load()));
  return 0;
}
