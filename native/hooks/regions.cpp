#include "hooks/regions.hpp"

#include "base/clock.hpp"
#include "sampler/threads.hpp"
#include "spool/spool.hpp"

namespace aiflame::regions {

namespace {

uint32_t thread_row() noexcept {
  Thread* thread = threads::self();
  return thread ? thread->row : 0;
}

}  // namespace

uint32_t push(const Spec& spec) noexcept { return begin(spec); }

uint32_t pop(schema::RegionApi, std::string_view) noexcept { return 0; }

uint32_t begin(const Spec& spec) noexcept {
  control::Use use;
  if (!control::recording()) return 0;
  return spool::append(schema::RegionRecord{
      .thread = thread_row(),
      .api = static_cast<uint8_t>(spec.api),
      .kind = static_cast<uint8_t>(spec.kind),
      .payload_type = static_cast<uint8_t>(spec.payload_type),
      .color = spec.color,
      .domain = spool::text(spec.domain),
      .category = spool::text(spec.category),
      .name = spool::text(spec.name),
      .payload = spec.payload,
      .begin_ns = now_ns(),
  });
}

void end(uint32_t row) noexcept {
  if (row) spool::append(schema::RegionEnd{.region = row, .thread = thread_row(), .end_ns = now_ns()});
}

}  // namespace aiflame::regions
