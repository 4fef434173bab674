#include "spool/control.hpp"

#include "base/clock.hpp"
#include "base/fences.hpp"
#include "base/places.hpp"
#include "base/sys.hpp"
#include "spool/reach.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace aiflame::control {

namespace {
constexpr long kPageBytes = 4096;
schema::Control off;
schema::Control* shared = &off;
char profile[400];
std::atomic<bool> stopped{true};
bool ever_recorded;  // else no thread can have used tables
// Written by all threads all the time: on a cache line of its own, since its neighbours are only read.
struct alignas(64) Users : std::atomic<int> {
  using std::atomic<int>::atomic;
};
constinit Users users{0};

// False when something else is mapped there now.
bool map_at_its_place() noexcept {
  auto address = reinterpret_cast<long>(shared);
  long fd = reach::open_control(profile, O_RDWR);
  if (sys::failed(fd)) return false;
  long mapped = sys::call(SYS_mmap, address, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
  sys::call(SYS_close, fd);
  return mapped == address;
}

}  // namespace

bool attach(const char* path) noexcept {
  if (strlen(path) >= sizeof profile) return false;
  long fd = reach::open_control(path, O_RDWR);
  if (sys::failed(fd)) return false;
  long size = sys::call(SYS_lseek, fd, 0, SEEK_END);  // touching a page past the end would be a SIGBUS
  long mapped = size < kPageBytes ? -EINVAL : sys::call(SYS_mmap, 0, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  sys::call(SYS_close, fd);
  if (sys::failed(mapped)) return false;
  auto* candidate = reinterpret_cast<schema::Control*>(mapped);
  if (candidate->magic != schema::kControlMagic || candidate->format != schema::kFormat) {
    sys::unmap_memory(candidate, kPageBytes);
    return false;
  }
  // A second recording of this process takes over the first one's address: another thread may be reading the page.
  if (shared == &off)
    shared = candidate;
  else
    sys::call(SYS_mremap, mapped, kPageBytes, kPageBytes, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<long>(shared));
  memcpy(profile, path, strlen(path) + 1);
  return true;
}

bool covers(uint64_t address) noexcept { return shared != &off && places::range(shared, kPageBytes).holds(address); }

bool overlaps(uint64_t address, uint64_t bytes) noexcept { return shared != &off && places::range(shared, kPageBytes).overlaps(address, bytes); }

bool map_again() noexcept {
  return !sys::failed(sys::call(SYS_mprotect, reinterpret_cast<long>(shared), kPageBytes, PROT_READ | PROT_WRITE)) || map_at_its_place();
}

void map_missing() noexcept {
  if (shared != &off && !places::is_mapped(places::range(shared, kPageBytes))) map_at_its_place();
}

const schema::Control& page() noexcept { return *shared; }
const char* profile_path() noexcept { return profile; }

bool recording() noexcept {
  return !stopped.load(std::memory_order_relaxed) &&
         std::atomic_ref(shared->state).load(std::memory_order_relaxed) == static_cast<uint32_t>(schema::ControlState::RECORDING);
}

bool has(schema::Feature feature) noexcept { return (shared->features & static_cast<uint64_t>(feature)) != 0; }

bool take(uint64_t bytes) noexcept {
  uint64_t before = std::atomic_ref(shared->used_bytes).fetch_add(bytes, std::memory_order_relaxed);
  if (shared->max_bytes == 0 || before + bytes <= shared->max_bytes) return true;
  give_back(bytes);
  stop(schema::StopReason::MAX_SIZE, 0);
  return false;
}

// Bytes that do not fit are never added to the page: they would end the recording for any process that books at that moment.
bool try_take(uint64_t bytes) noexcept {
  std::atomic_ref used(shared->used_bytes);
  for (uint64_t before = used.load(std::memory_order_relaxed);;) {
    if (shared->max_bytes != 0 && (before > shared->max_bytes || bytes > shared->max_bytes - before)) return false;
    if (used.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed)) return true;
  }
}

void give_back(uint64_t bytes) noexcept { std::atomic_ref(shared->used_bytes).fetch_sub(bytes, std::memory_order_relaxed); }

void stop(schema::StopReason reason, uint32_t error) noexcept {
  stopped.store(true, std::memory_order_release);
  if (reason == schema::StopReason::NONE) return;  // a store would have the kernel give this process the page to write to
  uint32_t none = 0;
  if (std::atomic_ref(shared->stop_reason).compare_exchange_strong(none, static_cast<uint32_t>(reason))) shared->stop_errno = error;
}

// Sequentially consistent: a user too late for await_users() sees that recording has stopped.
Use::Use() noexcept { users.fetch_add(1, std::memory_order_seq_cst); }
Use::~Use() { users.fetch_sub(1, std::memory_order_release); }

bool await_users(bool (*others)() noexcept) noexcept {
  constexpr uint64_t kPatience = 1'000'000'000;
  stopped.store(true, std::memory_order_seq_cst);
  if (ever_recorded) let_stores_arrive();  // those of a thread that read `stopped` as false
  timespec moment{0, 1'000'000};
  for (uint64_t begin = now_ns(); users.load(std::memory_order_seq_cst) > 0 || others();) {
    if (now_ns() - begin > kPatience) return false;
    sys::call(SYS_nanosleep, reinterpret_cast<long>(&moment), 0);
  }
  return true;
}

void forget_users() noexcept { users.store(0, std::memory_order_relaxed); }

void forget_stop() noexcept {
  ever_recorded |= shared != &off;
  stopped.store(shared == &off, std::memory_order_release);
}

}  // namespace aiflame::control
