#include "records/device_code.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "spool/control.hpp"
#include "spool/reach.hpp"
#include "spool/spool.hpp"

#include <fcntl.h>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

namespace aiflame::device_code {

namespace {

// Files with a row already, by crc. Two threads may write the same row twice: readers take either.
constexpr uint32_t kPlaces = 1 << 13, kMostSteps = 8;
AIFLAME_LARGE std::atomic<uint64_t> written[kPlaces];
// Most processes load no device code: to forget nothing is not to touch all of that.
std::atomic<bool> any{false};

bool is_new(uint64_t crc) noexcept {
  any.store(true, std::memory_order_relaxed);
  for (uint32_t step = 0; step < kMostSteps; step++) {
    uint64_t there = 0;
    std::atomic<uint64_t>& place = written[(crc + step) % kPlaces];
    if (place.compare_exchange_strong(there, crc)) return true;
    if (there == crc) return false;
  }
  return true;
}

bool write_all(long file, const char* bytes, size_t size) noexcept {
  while (size) {
    long done = sys::call(SYS_write, file, reinterpret_cast<long>(bytes), static_cast<long>(size));
    if (done == -EINTR) continue;
    if (done <= 0) return false;
    bytes += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

// The file appears whole, under its own name, or not at all. True also when another process has kept it.
bool write_file(uint64_t crc, const char* bytes, size_t size) noexcept {
  char folder[4096], path[4200], draft[4232];
  long here = reach::device_code();
  bool by_path = here < 0;
  if (by_path) here = AT_FDCWD;
  snprintf(folder, sizeof folder, "%s/cubins", control::profile_path());
  snprintf(path, sizeof path, "%s%s%016llx.cubin", by_path ? folder : "", by_path ? "/" : "", static_cast<unsigned long long>(crc));
  snprintf(draft, sizeof draft, "%s.%u", path, sys::thread_id());
  if (sys::call(SYS_faccessat, here, reinterpret_cast<long>(path), 0) == 0) return true;
  if (!control::try_take(size)) return false;
  if (by_path) sys::call(SYS_mkdirat, here, reinterpret_cast<long>(folder), 0700);
  long file = sys::call(SYS_openat, here, reinterpret_cast<long>(draft), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  bool kept = !sys::failed(file) && write_all(file, bytes, size);
  if (!sys::failed(file)) sys::call(SYS_close, file);
  kept = kept && !sys::failed(sys::call(SYS_renameat, here, reinterpret_cast<long>(draft), here, reinterpret_cast<long>(path)));
  if (kept) return true;
  sys::call(SYS_unlinkat, here, reinterpret_cast<long>(draft), 0);
  control::give_back(size);
  return false;
}

}  // namespace

uint64_t checksum(const void* bytes, size_t size) noexcept {
  spool::Hash hash;
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    memcpy(&word, static_cast<const char*>(bytes) + at, std::min(size - at, sizeof word));
    hash.add(word);
  }
  hash.add(size);
  return hash.state | 1;
}

void keep(uint64_t crc, const void* bytes, size_t size, std::string_view lost) noexcept {
  if (!is_new(crc)) return;
  bool kept = write_file(crc, static_cast<const char*>(bytes), size);
  if (!kept) spool::note(lost);
  spool::append(schema::CubinRecord{.crc = crc, .bytes = kept ? size : 0, .time_ns = now_ns()});
}

void forget_rows() noexcept {
  if (!any.load(std::memory_order_relaxed)) return;
  any.store(false, std::memory_order_relaxed);
  for (auto& place : written) place.store(0, std::memory_order_relaxed);
}

}  // namespace aiflame::device_code
