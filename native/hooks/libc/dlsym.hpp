// libc's dlsym(), bypassing ours.
#pragma once

namespace aiflame::hooks {

// Only for a library that is named by its handle: RTLD_NEXT would mean ours.
void* real_dlsym(void* library, const char* name) noexcept;

}  // namespace aiflame::hooks
