// Other users of CUPTI in the program (torch.profiler, Proton). CUPTI serves one at a time: while another tool uses it we step aside, and come back
// when the tool has finished.
#pragma once
#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace aiflame::cuda::sharing {

// The functions with which other tools begin and end, or which would disturb us.
#define AIFLAME_SHARED_CUPTI(F)        \
  F(Subscribe)                         \
  F(Subscribe_v2)                      \
  F(Unsubscribe)                       \
  F(Finalize)                          \
  F(ActivityRegisterCallbacks)         \
  F(ActivityRegisterTimestampCallback) \
  F(ActivityEnable)                    \
  F(ActivityEnableAndDump)             \
  F(ActivityEnableContext)             \
  F(ActivityDisable)                   \
  F(ActivityDisableContext)

// The real functions behind a call: a process may have more than one copy of CUPTI.
struct Real {
#define AIFLAME_MEMBER(name) decltype(&cupti##name) name;
  AIFLAME_SHARED_CUPTI(AIFLAME_MEMBER)
#undef AIFLAME_MEMBER
  const void* library;
};

// True if another tool uses CUPTI, or is about to. Then CUDA's collection begins when the tool has left.
bool in_use() noexcept;
// Our functions for buffers are registered now.
void registered_ours() noexcept;
// The tool that came last, for messages.
const char* user() noexcept;

// Passes a buffer that came back to us, but belongs to another tool, on to that tool. False: it is ours.
bool give_back(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t used) noexcept;

// The clock that another tool has set; nullptr: none.
CUpti_TimestampCallbackFunc clock() noexcept;

// Only the thread that forked lives on in the child.
void after_fork_child() noexcept;

// Without LD_PRELOAD: from here on, libraries that are already linked with CUPTI call our wrappers. Look-ups by dlsym() do not reach us.
void lead_callers() noexcept;

// The copy of CUPTI from which another tool got functions before ours was loaded, as dlopen() gives it; nullptr: none. We must use it, too.
void* copy_of_others() noexcept;

// A call that another tool makes, from `caller`.
struct Call {
  const Real& real;
  const void* caller;
};
CUptiResult Subscribe(Call call, CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user) noexcept;
CUptiResult Subscribe_v2(Call call, CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user,
                         CUpti_SubscriberParams* params) noexcept;
CUptiResult Unsubscribe(Call call, CUpti_SubscriberHandle subscriber) noexcept;
CUptiResult Finalize(Call call) noexcept;
CUptiResult ActivityRegisterCallbacks(Call call, CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) noexcept;
CUptiResult ActivityRegisterTimestampCallback(Call call, CUpti_TimestampCallbackFunc clock) noexcept;
CUptiResult ActivityEnable(Call call, CUpti_ActivityKind kind) noexcept;
CUptiResult ActivityEnableAndDump(Call call, CUpti_ActivityKind kind) noexcept;
CUptiResult ActivityEnableContext(Call call, CUcontext context, CUpti_ActivityKind kind) noexcept;
CUptiResult ActivityDisable(Call call, CUpti_ActivityKind kind) noexcept;
CUptiResult ActivityDisableContext(Call call, CUcontext context, CUpti_ActivityKind kind) noexcept;

}  // namespace aiflame::cuda::sharing
