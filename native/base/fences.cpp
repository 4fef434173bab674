#include "base/fences.hpp"

#include "base/sys.hpp"

#include <cerrno>
#include <ctime>

namespace aiflame {

void let_stores_arrive() noexcept {
  // Only for this process's threads. It takes microseconds; 10 ms the first time in a program that already has threads.
  constexpr long kRegister = 1 << 4, kExpedited = 1 << 3;
  if (!sys::failed(sys::call(SYS_membarrier, kRegister, 0)) && !sys::failed(sys::call(SYS_membarrier, kExpedited, 0))) return;
  // Old kernels and sandboxes lack the call: then we rely on the store having reached the cache long ago.
  timespec left{0, 1'000'000};
  while (sys::call(SYS_nanosleep, reinterpret_cast<long>(&left), reinterpret_cast<long>(&left)) == -EINTR) continue;
}

}  // namespace aiflame
