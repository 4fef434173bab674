// CUDA: the functions for the collector's other parts. cupti_api.hpp has CUPTI, life.hpp the order of CUPTI's calls.
#pragma once
#include <cstdint>

namespace aiflame::cuda {

// A recording begins in a program that may use CUDA already.
void start() noexcept;
// The recording ends: everything that CUPTI still holds is written.
void stop() noexcept;
// The process is about to end or to exec, in a thread that may be in a signal handler and hold any lock: another thread writes CUPTI's remaining
// records, within two seconds or not at all. Collecting continues.
void flush_anywhere() noexcept;
// The recording ends where the process ends: CUPTI is never called again.
void leave() noexcept;
// CUPTI samples, or counts, for the first time: makes sure that leave() is called at exit before any function that CUPTI has registered for that.
enum class CuptisOwn : uint8_t { SAMPLING, COUNTING };
void leave_before_cuptis_own(CuptisOwn use) noexcept;
// CUPTI has ended itself after an error: it is never called again.
void give_up(const char* why) noexcept;
bool may_call_cupti() noexcept;
// Forgets rows of tables that no longer exist.
void forget_rows() noexcept;
void after_fork_child() noexcept;

// Another tool in the program is about to use CUPTI (returns when it can) / has left it.
void yield_to(const char* tool) noexcept;
void regain() noexcept;
// True if nothing is collected, and collecting could begin if no other tool uses CUPTI.
bool may_return() noexcept;

bool collecting() noexcept;

// Asks the driver for a device's name, before the first record about the device: that must not happen in CUPTI's buffer functions.
void learn_name(uint32_t ordinal) noexcept;
// The `device` text of a device by its number, a spool::text reference: `NVIDIA H200 [0]`.
uint32_t device_text(uint32_t ordinal) noexcept;

}  // namespace aiflame::cuda
