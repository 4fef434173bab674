#include "records/host_memory.hpp"

#include "base/clock.hpp"
#include "base/own_process.hpp"
#include "records/live_bytes.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <atomic>

extern "C" __attribute__((visibility("default"))) const aiflame::host_memory::Interface* aiflame_host_memory() noexcept;
// In the library, if it is loaded.
extern "C" __attribute__((weak, visibility("default"))) void aiflame_memory_recorded() noexcept;

namespace aiflame::host_memory {

namespace {

std::atomic<uint32_t> recording{1};
std::atomic<uint32_t> refusals{0};  // in this recording

bool is_on() noexcept { return control::recording() && control::has(schema::Feature::HOST_MEMORY); }

// A child of a fork allocates before it has tables of its own; a vfork child uses its parent's memory.
bool records() noexcept { return is_on() && own_process(); }

uint64_t every() noexcept { return is_on() ? control::page().host_memory_every : 0; }

// Threads allocate before and after the part of their life that is recorded, also with the locks held by which a thread is made known: so none is
// made known here.
uint32_t row_of(Thread* thread) noexcept { return thread ? std::atomic_ref(thread->row).load(std::memory_order_acquire) : 0; }

Row append(const schema::HostAllocation& record, uint32_t number, const control::Use& use) noexcept {
  uint32_t row = spool::append(record, use);
  if (row) live_bytes::add(static_cast<int64_t>(record.weight));
  return row ? static_cast<Row>(number) << 32 | row : 0;
}

Row taken(const Registers& caller, const Sample& sample) noexcept {
  if (!records()) return 0;
  control::Use use;
  uint32_t number = recording.load(std::memory_order_acquire);
  Thread* thread = threads::self_if_known();
  uint32_t thread_row = row_of(thread);
  return append({.kind = static_cast<uint32_t>(sample.kind),
                 .thread = thread_row,
                 .stack = thread_row ? capture(*thread, caller) : 0,
                 .address = sample.address,
                 .bytes = sample.bytes,
                 .weight = sample.weight,
                 .time_ns = now_ns()},
                number, use);
}

bool is_current(Row row) noexcept { return row >> 32 == recording.load(std::memory_order_acquire); }

void forget_bytes(Row row) noexcept {
  if (const auto* gone = spool::at<schema::HostAllocation>(static_cast<uint32_t>(row))) live_bytes::add(-static_cast<int64_t>(gone->weight));
}

void released(Row row, uint64_t time_ns) noexcept {
  if (!records()) return;
  control::Use use;
  if (!is_current(row)) return;
  forget_bytes(row);
  spool::append(schema::HostFree{.allocation = static_cast<uint32_t>(row), .thread = row_of(threads::self_if_known()), .time_ns = time_ns}, use);
}

Row remains(Row row, uint64_t address, uint64_t bytes, uint64_t time_ns) noexcept {
  if (!records()) return 0;
  control::Use use;
  if (!is_current(row)) return 0;
  const auto* whole = spool::at<schema::HostAllocation>(static_cast<uint32_t>(row));
  if (!whole || !whole->bytes) return 0;
  schema::HostAllocation part = *whole;
  part.kind = static_cast<uint32_t>(schema::HostMemoryKind::REST);
  part.address = address;
  part.bytes = bytes;
  part.weight = static_cast<uint64_t>(static_cast<double>(whole->weight) * (static_cast<double>(bytes) / static_cast<double>(whole->bytes)));
  part.time_ns = time_ns;
  return append(part, static_cast<uint32_t>(row >> 32), use);
}

// A program may ask for ever smaller pieces until it gets one.
void refused(const Registers& caller, uint64_t bytes) noexcept {
  constexpr uint32_t kMost = 1000;
  if (!records() || refusals.load(std::memory_order_relaxed) >= kMost) return;
  if (refusals.fetch_add(1, std::memory_order_relaxed) == kMost - 1) spool::note("host memory: the first 1,000 failed allocations are recorded");
  control::Use use;
  Thread* thread = threads::self_if_known();
  uint32_t thread_row = row_of(thread);
  spool::append(
      schema::MemoryRefusal{
          .thread = thread_row,
          .stack = thread_row ? capture(*thread, caller) : 0,
          .memory = spool::text("host"),
          .bytes = bytes,
          .time_ns = now_ns(),
      },
      use);
}

void note(std::string_view text) noexcept {
  if (records()) spool::note(text);
}

constexpr Interface kInterface{every, taken, released, remains, refused, now_ns, note};

}  // namespace

void start() noexcept {
  if (!every()) return;
  if (aiflame_memory_recorded)
    aiflame_memory_recorded();
  else
    spool::note("host memory is not recorded: that needs aiflame record --host-memory, which starts the program with a library of its own");
}

void forget_rows() noexcept {
  recording.fetch_add(1, std::memory_order_acq_rel);
  refusals.store(0, std::memory_order_relaxed);
  live_bytes::forget();
}

}  // namespace aiflame::host_memory

const aiflame::host_memory::Interface* aiflame_host_memory() noexcept { return &aiflame::host_memory::kInterface; }
