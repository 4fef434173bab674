// The table of threads. Looking up a thread takes one load; taking and freeing slots needs no lock, also in a handler.
#pragma once
#include "sampler/threads.hpp"

#include <bit>

namespace aiflame::thread_slots {

inline constexpr uint32_t kSlots = 1 << 14;

Thread* find(uint32_t tid) noexcept;

// Takes a slot for a thread that has none; nullptr if all slots are taken or there is no memory. Under a Claim.
Thread* take(uint32_t tid) noexcept;
// `reported`: the thread itself reports its end. The kernel lists it for another moment, in which just_ended() recognizes it.
void give_back(Thread& thread, bool reported) noexcept;
bool just_ended(uint32_t tid, uint64_t now) noexcept;

// In the child of a fork: empties all slots except the survivor's; `survivor` may be nullptr.
void keep_only(Thread* survivor) noexcept;

// For a pass over the threads that the kernel lists, to find our threads that are not in the list.
void meet(const Thread& thread, uint32_t pass) noexcept;
bool met(const Thread& thread, uint32_t pass) noexcept;

// The state of 64 slots as one word, for each().
uint64_t taken_word(uint32_t word) noexcept;
// Slots beyond these have never been used.
uint32_t words_in_use() noexcept;
Thread* in_slot(uint32_t slot) noexcept;

template <class Visit>
void each(Visit visit) noexcept {
  for (uint32_t word = 0, words = words_in_use(); word < words; word++) {
    for (uint64_t taken = taken_word(word); taken; taken &= taken - 1) {
      Thread* thread = in_slot(word * 64 + static_cast<uint32_t>(std::countr_zero(taken)));
      if (thread && thread->tid.load(std::memory_order_acquire)) visit(*thread);
    }
  }
}

// Taking, enrolling and retiring a tid are done by one thread at a time.
class Claim {
 public:
  // A handler only tries: it may have interrupted the holder.
  enum class Patience : uint8_t { TRY, WAIT };
  explicit Claim(uint32_t tid, Patience patience = Patience::TRY) noexcept;
  ~Claim();
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  std::atomic<bool>& stripe_;
  bool held_;
};

}  // namespace aiflame::thread_slots
