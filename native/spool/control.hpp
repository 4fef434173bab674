// The page that the recorder and every recorded process share: it has the options, the fill level and the stop reason.
#pragma once
#include "aiflame_schema.hpp"

#include <cstdint>

namespace aiflame::control {

// Maps PROFILE/control. False if it is missing or has another format. Nothing is recorded before forget_stop().
bool attach(const char* profile) noexcept;

// The page, never null: before attach(), a page with recording off.
const schema::Control& page() noexcept;
const char* profile_path() noexcept;

// True if the address is in the page.
bool covers(uint64_t address) noexcept;
bool overlaps(uint64_t address, uint64_t bytes) noexcept;
// Restores the page after the program has unmapped or protected it. False if that is impossible.
bool map_again() noexcept;
// Maps the page again after the program has unmapped it, unless something else is mapped there now.
void map_missing() noexcept;

bool recording() noexcept;
bool has(schema::Feature feature) noexcept;

// Adds `bytes` of disk to the total; false, and recording stops, if --max-size is reached.
bool take(uint64_t bytes) noexcept;
// The same for optional data: if they do not fit, recording continues.
bool try_take(uint64_t bytes) noexcept;
void give_back(uint64_t bytes) noexcept;

// Stops recording in this process. The first reason in the whole recording stays on the page, for the recorder to report.
void stop(schema::StopReason reason, uint32_t error) noexcept;

// Called when tables are open: forgets a stop() of the last recording, or of the parent.
void forget_stop() noexcept;

// Held by code of any thread while it uses tables: a new recording waits for it.
class Use {
 public:
  Use() noexcept;
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
};
// After recording has stopped: waits for threads that have not noticed, and while `others` returns true. False if that takes longer than a second: a
// thread may have been killed, or stopped for ever.
bool await_users(bool (*others)() noexcept) noexcept;
void forget_users() noexcept;

}  // namespace aiflame::control
