// For programs whose outcome with the collector is compared with their outcome alone: only where they are recorded do they work long enough
// to be sampled.
#pragma once

#include <cstdlib>

inline bool is_recorded() { return getenv("AIFLAME_PROFILE") != nullptr; }
