// The program's disposition of a signal, readable in the signal's own handler.
#pragma once
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace aiflame::signals {

using Disposition = struct sigaction;

// The disposition as rt_sigaction() has it.
struct KernelAction {
  uint64_t handler, flags, restorer, mask;
};

inline bool is_function(const Disposition& disposition) noexcept { return disposition.sa_handler != SIG_DFL && disposition.sa_handler != SIG_IGN; }

// A new disposition is written to a free place and then published: a handler that interrupts the writer, runs at the same time, or runs in the child
// of a fork at that moment always finds a complete one.
class Wanted {
 public:
  static constexpr uint32_t kPlaces = 16;
  // The kernel knows 64 signals: of a mask's 128 bytes it takes 8.
  struct Place {
    std::atomic<uint32_t> version{0};
    int flags = 0;
    void (*handler)(int) = nullptr;
    void (*restorer)() = nullptr;
    uint64_t mask = 0;

    void write(const Disposition& disposition) noexcept {
      flags = disposition.sa_flags;
      handler = disposition.sa_handler;
      restorer = disposition.sa_restorer;
      memcpy(&mask, &disposition.sa_mask, sizeof mask);
    }
    Disposition disposition() const noexcept {
      Disposition result{};
      result.sa_flags = flags;
      result.sa_handler = handler;
      result.sa_restorer = restorer;
      memcpy(&result.sa_mask, &mask, sizeof mask);
      return result;
    }
  };
  // Dispositions of many signals. The first places of all are neighbours: most programs set each only once.
  template <uint32_t kSignals>
  class Table {
   public:
    Place* operator()(uint32_t signal, uint32_t number) noexcept { return &places_[number % kPlaces][signal]; }

   private:
    Place places_[kPlaces][kSignals];
  };

  Disposition read() const noexcept {
    for (;;) {
      Place* place = current_.load(std::memory_order_acquire);
      if (!place) return {};
      uint32_t version = place->version.load(std::memory_order_acquire);
      Disposition copy = place->disposition();
      std::atomic_thread_fence(std::memory_order_acquire);
      if (current_.load(std::memory_order_relaxed) == place && place->version.load(std::memory_order_relaxed) == version) return copy;
    }
  }

  template <class Table>
  Disposition exchange(const Disposition& disposition, Table& table, uint32_t signal) noexcept {
    Place* old = current_.exchange(fill(disposition, table, signal), std::memory_order_acq_rel);
    return old ? old->disposition() : Disposition{};
  }

  // SA_RESETHAND: resets only if the disposition has not changed in the meantime.
  template <class Table>
  void reset(void (*handler)(int), Table& table, uint32_t signal) noexcept {
    Place* place = current_.load(std::memory_order_acquire);
    if (!place || place->handler != handler) return;
    Disposition none = place->disposition();
    none.sa_handler = SIG_DFL;
    current_.compare_exchange_strong(place, fill(none, table, signal), std::memory_order_acq_rel);
  }

  const void* version() const noexcept { return current_.load(std::memory_order_acquire); }

 private:
  template <class Table>
  Place* fill(const Disposition& disposition, Table& table, uint32_t signal) noexcept {
    Place* place;
    do place = table(signal, next_.fetch_add(1, std::memory_order_relaxed));
    while (place == current_.load(std::memory_order_relaxed));
    place->version.fetch_add(1, std::memory_order_acq_rel);
    place->write(disposition);
    return place;
  }

  std::atomic<Place*> current_{nullptr};
  std::atomic<uint32_t> next_{0};
};

}  // namespace aiflame::signals
