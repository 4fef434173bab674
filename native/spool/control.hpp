// The page that the recorder and every recorded process share: options in, fill level and stop reason out.
#pragma once
#include "aiflame_schema.hpp"

#include <cstdint>

namespace aiflame::control {

// Maps PROFILE/control. False when it is absent or of another format. Nothing is recorded before forget_stop().
bool attach(const char* profile) noexcept;

// Never null: a page with recording off stands in until attach().
const schema::Control& page() noexcept;
const char* profile_path() noexcept;

// The address lies in the page.
bool covers(uint64_t address) noexcept;
bool overlaps(uint64_t address, uint64_t bytes) noexcept;
// The program has unmapped or protected the page: it is as before. False where that cannot be.
bool map_again() noexcept;
// Maps it again where the program has unmapped it and nothing else lies there now.
void map_missing() noexcept;

bool recording() noexcept;
bool has(schema::Feature feature) noexcept;

// Books `bytes` of disk; false, and recording stops, when --max-size is reached.
bool take(uint64_t bytes) noexcept;
// The same for what can be done without: when it does not fit, recording goes on.
bool try_take(uint64_t bytes) noexcept;
void give_back(uint64_t bytes) noexcept;

// This process records no more. The first reason of the whole recording stays on the page for the recorder to tell.
void stop(schema::StopReason reason, uint32_t error) noexcept;

// Tables are open: stop() was said of others, by the last recording or by the parent.
void forget_stop() noexcept;

// Held while tables are used by code that may run in any thread: starting again waits for it.
class Use {
 public:
  Use() noexcept;
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
};
// Once recording has stopped: waits for those who have not noticed, and while `others` says that there are more. False when they take
// longer than a second: a thread may have been killed, or stand still for ever.
bool await_users(bool (*others)() noexcept) noexcept;
void forget_users() noexcept;

}  // namespace aiflame::control
