// Regions of time that the program marks (NVTX, ITT, aiflame.region()), and the values that it attaches to them.
//
// A row is written when a region begins, and another when it ends, so that a process which is killed loses nothing that began. Regions
// that are pushed and popped nest for each thread, api and domain. Open regions are remembered whether or not anything is recorded: a
// recording that begins or ends between a push and its pop leaves the pops after it with the pushes that they belong to.
//
// A region belongs to the recording, and to the process, in which it began: one that was open before has no row.
#pragma once
#include "aiflame_schema.hpp"

#include <cstdint>
#include <string_view>

namespace aiflame::regions {

struct Spec {
  schema::RegionApi api;
  schema::RegionKind kind;
  std::string_view domain, category, name;
  uint32_t color;
  uint64_t payload;
  schema::PayloadType payload_type;
};

// Distinguishes a region from others that a thread has pushed with the same api and domain: the program's own number for it.
using Tag = uint64_t;
inline constexpr Tag kAny = 0;

// Begins a region inside those that the calling thread has pushed with this api and domain. Returns its row; 0: nothing is recorded.
uint32_t push(const Spec& spec, Tag tag = kAny) noexcept;
// Ends the innermost of them and returns its row; 0: none was open (which is noted once), or it has no row.
uint32_t pop(schema::RegionApi api, std::string_view domain, Tag tag = kAny) noexcept;

// Begins a region that any thread may end, or records a moment (MARK: it has no end).
uint32_t begin(const Spec& spec) noexcept;
void end(uint32_t row) noexcept;
// Records a region in the past, which the program reports when it is over.
uint32_t submit(const Spec& spec, uint64_t begin_ns, uint64_t end_ns) noexcept;

// The innermost open region that the calling thread has pushed with this api and domain, 0: none.
uint32_t innermost(schema::RegionApi api, std::string_view domain, Tag tag = kAny) noexcept;
void tell(uint32_t row, std::string_view key, std::string_view value) noexcept;
void count(std::string_view domain, std::string_view name, double value) noexcept;

// Rows belong to one recording in one process: code that stores a row stores this number with it, and drops both when the number has changed.
uint32_t recording_number() noexcept;

// New tables: rows of the last ones are invalid.
void forget_rows() noexcept;

}  // namespace aiflame::regions
