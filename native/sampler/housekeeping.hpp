// Work that must be done now and then while recording, done by whichever thread ticks when it is due: we have no thread of our own.
#pragma once
#include <cstdint>

namespace aiflame {

void housekeeping(uint64_t now_ns) noexcept;

}  // namespace aiflame
