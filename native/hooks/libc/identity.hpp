// Calls after which paths lead elsewhere, or permissions change: setuid() and its kind, chroot(), unshare(), setns(), clone() into namespaces. Right
// before such a call, descriptors are opened that lead to the profile as long as they stay open (spool/reach).
#pragma once
#include <cstdint>

namespace aiflame::hooks {

// A call of libc's syscall() changes the identity or root, with these two arguments.
void before_syscall_of_identity(long number, long first, long second) noexcept;

}  // namespace aiflame::hooks
