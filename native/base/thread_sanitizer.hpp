// The thread sanitizer does not see system calls: without these two, memory that one thread unmaps and another one then gets from the kernel
// counts as shared by both. In other builds they do nothing.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace aiflame::thread_sanitizer {

#ifdef __SANITIZE_THREAD__
inline char kernel;
inline void before_unmap() noexcept { __tsan_release(&kernel); }
inline void after_map() noexcept { __tsan_acquire(&kernel); }
#else
inline void before_unmap() noexcept {}
inline void after_map() noexcept {}
#endif

}  // namespace aiflame::thread_sanitizer
