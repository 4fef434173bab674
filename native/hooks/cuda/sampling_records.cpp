#include "hooks/cuda/sampling_records.hpp"

#include "base/large.hpp"
#include "hooks/cuda/cuda.hpp"
#include "spool/spool.hpp"

#include <atomic>
#include <cstring>
#include <string_view>

namespace aiflame::cuda::sampling {

namespace {

// Most processes write none: then forget_written() touches none of the tables.
constinit std::atomic<bool> any_written{false};

// Rows that were written, by a hash of their content; two threads that write the same row first at the same moment may both write it.
template <uint32_t kPlaces>
class Written {
 public:
  template <class Write>
  uint32_t row(uint64_t hash, Write write) noexcept {
    constexpr uint32_t kMostSteps = 16;
    hash |= 1;
    if (!any_written.load(std::memory_order_relaxed)) any_written.store(true, std::memory_order_relaxed);
    for (uint32_t step = 0; step < kMostSteps; step++) {
      Place& place = places_[(hash / 2 + step) % kPlaces];
      uint64_t there = place.hash.load(std::memory_order_acquire);
      if (there == hash) {
        if (uint32_t row = place.row.load(std::memory_order_acquire)) return row;
        continue;
      }
      if (there != 0 || !place.hash.compare_exchange_strong(there, hash)) continue;
      uint32_t row = write();
      place.row.store(row, std::memory_order_release);
      return row;
    }
    return write();
  }

  void forget() noexcept {
    for (Place& place : places_) {
      place.row.store(0, std::memory_order_relaxed);
      place.hash.store(0, std::memory_order_release);
    }
  }

 private:
  struct Place {
    std::atomic<uint64_t> hash;  // 0: free
    std::atomic<uint32_t> row;   // 0: being written
  };
  Place places_[kPlaces];
};

AIFLAME_LARGE constinit Written<1 << 14> functions;
AIFLAME_LARGE constinit Written<512> stall_reasons;

uint64_t hash_of(uint64_t number, std::string_view text) noexcept {
  spool::Hash hash;
  hash.add(number);
  uint64_t word = 0;
  for (; text.size() > sizeof word; text.remove_prefix(sizeof word)) {
    memcpy(&word, text.data(), sizeof word);
    hash.add(word);
  }
  word = 0;
  memcpy(&word, text.data(), text.size());
  hash.add(word);
  hash.add(text.size());
  return hash.state;
}

std::string_view name_of(const Reasons& reasons, uint32_t at) noexcept {
  return {reasons.names[at], strnlen(reasons.names[at], sizeof reasons.names[at])};
}

// Where a reason is in the list; kMostReasons for none.
uint32_t find(const Reasons& reasons, uint32_t index) noexcept {
  if (index < reasons.count && reasons.index[index] == index) return index;
  for (uint32_t at = 0; at < reasons.count; at++)
    if (reasons.index[at] == index) return at;
  return kMostReasons;
}

uint32_t row_of_reason(const Reasons& reasons, uint32_t at) noexcept {
  std::string_view name = name_of(reasons, at);
  uint32_t index = reasons.index[at];
  return stall_reasons.row(hash_of(index, name), [&] { return spool::append(schema::StallReason{.index = index, .name = spool::text(name)}); });
}

// A reason that CUPTI reports and did not name.
uint32_t row_of_unknown(uint32_t index) noexcept {
  constexpr std::string_view kUnknown = "unknown";
  return stall_reasons.row(hash_of(index, kUnknown),
                           [&] { return spool::append(schema::StallReason{.index = index, .name = spool::text(kUnknown)}); });
}

// Most records share their function with the few before them. A function's name is memory of the C library, shared by all records, those of kernels
// too; we would have to free it after the last record, so we never do.
class Functions {
 public:
  uint32_t row(const CUpti_PCSamplingPCData& record) noexcept {
    Known& known = known_[(reinterpret_cast<uint64_t>(record.functionName) >> 4) % kKnown];
    if (known.row && known.name == record.functionName && known.cubin == record.cubinCrc) return known.row;
    std::string_view name = record.functionName ? record.functionName : "";
    uint32_t row = functions.row(hash_of(record.cubinCrc, name),
                                 [&] { return spool::append(schema::GpuFunction{.cubin = record.cubinCrc, .name = spool::text(name)}); });
    known = {record.functionName, record.cubinCrc, row};
    return row;
  }

 private:
  static constexpr uint32_t kKnown = 32;
  struct Known {
    const char* name;
    uint64_t cubin;
    uint32_t row;
  };
  Known known_[kKnown] = {};
};

}  // namespace

void write_window(const Window& window, const Reasons& reasons, const Samples& samples) noexcept {
  control::Use use;
  const CUpti_PCSamplingData& totals = samples.totals();
  uint32_t id = spool::append(schema::GpuWindow{.device = device_text(window.device),
                                                .begin_ns = window.begin_ns,
                                                .end_ns = window.end_ns,
                                                .samples = totals.totalSamples,
                                                .dropped = totals.droppedSamples,
                                                .foreign = totals.nonUsrKernelsTotalSamples,
                                                .period_log2 = window.period});
  if (!id) return;
  uint32_t rows[kMostReasons] = {};
  Functions known;
  for (size_t number = 0; number < samples.size(); number++) {
    const CUpti_PCSamplingPCData& record = samples[number];
    uint32_t function = known.row(record);
    for (size_t at = 0; at < record.stallReasonCount && at < reasons.count; at++) {
      const CUpti_PCSamplingStallReason& stall = record.stallReason[at];
      if (!stall.samples) continue;
      uint32_t place = find(reasons, stall.pcSamplingStallReasonIndex);
      if (place < kMostReasons && !rows[place]) rows[place] = row_of_reason(reasons, place);
      uint32_t reason = place < kMostReasons ? rows[place] : row_of_unknown(stall.pcSamplingStallReasonIndex);
      spool::append(schema::GpuSample{
          .window = id, .function = function, .offset = static_cast<uint32_t>(record.pcOffset), .reason = reason, .count = stall.samples});
    }
  }
}

void forget_written() noexcept {
  if (!any_written.exchange(false, std::memory_order_relaxed)) return;
  functions.forget();
  stall_reasons.forget();
}

}  // namespace aiflame::cuda::sampling
