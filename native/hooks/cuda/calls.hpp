// Calls of CUDA's runtime and driver by the program → `calls` (with Feature TRACE_CUDA).
//
// The runtime calls the driver, and functions of the driver call others. The program made the outermost call only: that one is the row.
#pragma once
#include "hooks/cuda/internal.hpp"
#include "unwind/frames.hpp"

#include <cstdint>
#include <string_view>

namespace aiflame::cuda::tracing {

bool wanted() noexcept;

// Announces a function whose calls CUPTI will report.
void learn(CUpti_CallbackDomain domain, CUpti_CallbackId id, std::string_view name) noexcept;

// `subscription`: leave() ignores a call that began under another one, since only its beginning was recorded. `stack`: the stack that a launching
// call has captured anyway; 0: a stack is captured if the recording has stacks of calls.
void enter(uint32_t subscription, const Registers& from, uint32_t stack) noexcept;
void leave(uint32_t subscription, CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& data) noexcept;

// While it exists, calls that this thread makes are the collector's own, and are not recorded.
class Ours {
 public:
  Ours() noexcept;
  ~Ours();
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;
};

}  // namespace aiflame::cuda::tracing
