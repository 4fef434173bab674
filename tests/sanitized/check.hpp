// Failed checks of a program in this folder: a line each on stderr, and the exit status.
#pragma once
#include <atomic>
#include <cstdio>
#include <source_location>

namespace sanitized {

inline std::atomic<int> failures{0};

// In any thread. True when it is right.
inline bool check(bool right, std::source_location where = std::source_location::current()) {
  if (right) return true;
  if (failures.fetch_add(1) < 20) fprintf(stderr, "%s:%u: not as expected\n", where.file_name(), static_cast<unsigned>(where.line()));
  return false;
}

// The return value of main().
inline int status() { return failures.load() ? 1 : 0; }

}  // namespace sanitized
