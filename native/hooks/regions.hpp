// Regions of time that the program marks: rows of `regions` and `region_ends`.
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

// A nested region of the calling thread; its row, 0 when nothing is recorded.
uint32_t push(const Spec& spec) noexcept;
// Ends the region of that api and domain that the thread pushed last; its row, 0: there is none.
uint32_t pop(schema::RegionApi api, std::string_view domain) noexcept;

// Any region; its row. Ended by any thread.
uint32_t begin(const Spec& spec) noexcept;
void end(uint32_t row) noexcept;

}  // namespace aiflame::regions
