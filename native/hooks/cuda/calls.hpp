// Calls of CUDA's runtime and driver by the program → `calls` (with Feature TRACE_CUDA).
//
// The runtime calls the driver, and functions of the driver call others: what the program has called is the outermost of them, a row.
#pragma once
#include "hooks/cuda/internal.hpp"
#include "unwind/frames.hpp"

#include <cstdint>
#include <string_view>

namespace aiflame::cuda::tracing {

bool wanted() noexcept;

// A function that we are going to hear of.
void learn(CUpti_CallbackDomain domain, CUpti_CallbackId id, std::string_view name) noexcept;

// `subscription`: of a call that was under way when another one ended, only the beginning was told. `stack`: that of a call which has one
// anyway, since it launches something; 0: it has one if stacks are asked for.
void enter(uint32_t subscription, const Registers& from, uint32_t stack) noexcept;
void leave(uint32_t subscription, CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& data) noexcept;

// While it lives, what this thread calls is called by us.
class Ours {
 public:
  Ours() noexcept;
  ~Ours();
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;
};

}  // namespace aiflame::cuda::tracing
