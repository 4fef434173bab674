// Periodic work during a recording, done by any thread whose tick comes when it is due: we have no thread of our own.
#pragma once
#include <cstdint>

namespace aiflame {

void housekeeping(uint64_t now_ns) noexcept;

}  // namespace aiflame
