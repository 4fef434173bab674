// What the program asked a signal to do, readable in the signal's own handler.
#pragma once
#include <atomic>
#include <csignal>
#include <cstdint>

namespace aiflame::signals {

using Disposition = struct sigaction;

inline bool is_function(const Disposition& disposition) noexcept { return disposition.sa_handler != SIG_DFL && disposition.sa_handler != SIG_IGN; }

// A new disposition is written to a fresh place and then published, so that a handler that interrupts the writer, or runs beside it,
// or is born of a fork in the middle, always finds a whole one.
class Wanted {
 public:
  Disposition read() const noexcept {
    for (;;) {
      Place* place = current_.load(std::memory_order_acquire);
      if (!place) return {};
      uint32_t version = place->version.load(std::memory_order_acquire);
      Disposition copy = place->disposition;
      std::atomic_thread_fence(std::memory_order_acquire);
      if (current_.load(std::memory_order_relaxed) == place && place->version.load(std::memory_order_relaxed) == version) return copy;
    }
  }

  Disposition exchange(const Disposition& disposition) noexcept {
    Place* old = current_.exchange(fill(disposition), std::memory_order_acq_rel);
    return old ? old->disposition : Disposition{};
  }

  // SA_RESETHAND: only if nobody asked for something else in the meantime.
  void reset(void (*handler)(int)) noexcept {
    Place* place = current_.load(std::memory_order_acquire);
    if (!place || place->disposition.sa_handler != handler) return;
    Disposition none = place->disposition;
    none.sa_handler = SIG_DFL;
    current_.compare_exchange_strong(place, fill(none), std::memory_order_acq_rel);
  }

  const void* version() const noexcept { return current_.load(std::memory_order_acquire); }

 private:
  struct Place {
    std::atomic<uint32_t> version{0};
    Disposition disposition{};
  };

  Place* fill(const Disposition& disposition) noexcept {
    Place* place;
    do place = &places_[next_.fetch_add(1, std::memory_order_relaxed) % kPlaces];
    while (place == current_.load(std::memory_order_relaxed));
    place->version.fetch_add(1, std::memory_order_acq_rel);
    place->disposition = disposition;
    return place;
  }

  static constexpr uint32_t kPlaces = 16;
  std::atomic<Place*> current_{nullptr};
  std::atomic<uint32_t> next_{0};
  Place places_[kPlaces];
};

}  // namespace aiflame::signals
