#include "hooks/cuda/sampling_claim.hpp"

#include "base/sys.hpp"
#include "hooks/cuda/cupti_api.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <initializer_list>

namespace aiflame::cuda::sampling {

namespace {

// The part of a GPU that the program sees (MIG), or the GPU.
bool write_identity(char (&text)[33], uint32_t ordinal) noexcept {
  unsigned char identity[16];
  for (const char* name : {"cuDeviceGetUuid_v2", "cuDeviceGetUuid"}) {
    auto get = reinterpret_cast<int (*)(void*, int)>(driver_function(name));
    if (!get || get(identity, static_cast<int>(ordinal)) != 0) continue;
    for (int at = 0; at < 16; at++) snprintf(text + 2 * at, 3, "%02x", identity[at]);
    return true;
  }
  return false;
}

// Where files of the program's own are not looked for.
long moved_up(long file) noexcept {
  constexpr long kHigh = 200;
  long high = sys::call(SYS_fcntl, file, F_DUPFD_CLOEXEC, kHigh);
  if (sys::failed(high)) return file;
  sys::call(SYS_close, file);
  return high;
}

}  // namespace

// A name of Linux's abstract sockets has one owner, needs no file, and goes with the process.
bool Claim::take(uint32_t ordinal) noexcept {
  if (taken_) return true;
  char identity[33];
  if (!write_identity(identity, ordinal)) return true;
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "aiflame-gpu-sampling-%s", identity);
  long file = sys::call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (sys::failed(file)) return true;
  long bytes = static_cast<long>(offsetof(sockaddr_un, sun_path)) + 1 + length;
  long result = sys::call(SYS_bind, file, reinterpret_cast<long>(&address), bytes);
  if (sys::failed(result)) {
    sys::call(SYS_close, file);
    return result != -EADDRINUSE;
  }
  socket_ = moved_up(file);
  taken_ = true;
  return true;
}

void Claim::release() noexcept {
  if (taken_) sys::call(SYS_close, socket_);
  taken_ = false;
}

}  // namespace aiflame::cuda::sampling
