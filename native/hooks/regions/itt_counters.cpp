// ITT's counters: each change is a row of `counters`, with the value it then has.
#include "hooks/regions/interned_texts.hpp"
#include "hooks/regions/itt_internal.hpp"

#include <atomic>
#include <cstring>

namespace aiflame::itt {

namespace {

// Counters that are only named by their domain and a string are kept in this list, too.
constinit std::atomic<Counter*> counters{nullptr};

Counter* find(std::string_view name, std::string_view domain, int type) noexcept {
  for (Counter* counter = counters.load(std::memory_order_acquire); counter; counter = counter->next)
    if (counter->type == type && view(counter->name) == name && view(counter->domain) == domain) return counter;
  return nullptr;
}

Counter* make(std::string_view name, std::string_view domain, int type) noexcept {
  if (Counter* counter = find(name, domain, type)) return counter;
  auto* counter = interned::thing<Counter>();
  if (!counter) return nullptr;
  counter->name = interned::copy(name).data();
  counter->domain = interned::copy(domain).data();
  counter->type = type;
  counter->next = counters.load(std::memory_order_relaxed);
  while (!counters.compare_exchange_weak(counter->next, counter, std::memory_order_acq_rel)) {
  }
  return counter;
}

Counter* create(const char* name, const char* domain) noexcept { return make(view(name), view(domain), U64); }
Counter* create_typed(const char* name, const char* domain, MetadataType type) noexcept { return make(view(name), view(domain), type); }
Counter* create_v3(const Domain* domain, const char* name, MetadataType type) noexcept { return make(view(name), name_of(domain), type); }

void report(const Counter& counter, double value) noexcept { regions::count(view(counter.domain), view(counter.name), value); }

void add(Counter* counter, long change) noexcept {
  if (counter) report(*counter, static_cast<double>(std::atomic_ref(counter->value).fetch_add(change, std::memory_order_relaxed) + change));
}
void inc(Counter* counter) noexcept { add(counter, 1); }
void dec(Counter* counter) noexcept { add(counter, -1); }
void inc_delta(Counter* counter, unsigned long long change) noexcept { add(counter, static_cast<long>(change)); }
void dec_delta(Counter* counter, unsigned long long change) noexcept { add(counter, -static_cast<long>(change)); }

Counter* named(const Domain* domain, const StringHandle* name) noexcept { return make(text_of(name), name_of(domain), S64); }
void inc_v3(const Domain* domain, StringHandle* name) noexcept { add(named(domain, name), 1); }
void dec_v3(const Domain* domain, StringHandle* name) noexcept { add(named(domain, name), -1); }
void inc_delta_v3(const Domain* domain, StringHandle* name, unsigned long long change) noexcept { inc_delta(named(domain, name), change); }
void dec_delta_v3(const Domain* domain, StringHandle* name, unsigned long long change) noexcept { dec_delta(named(domain, name), change); }

template <class Number>
double read(const void* value) noexcept {
  Number number;
  memcpy(&number, value, sizeof number);
  return static_cast<double>(number);
}

double read(int type, const void* value) noexcept {
  switch (type) {
    case S64:
      return read<long long>(value);
    case U32:
      return read<unsigned>(value);
    case S32:
      return read<int>(value);
    case U16:
      return read<unsigned short>(value);
    case S16:
      return read<short>(value);
    case FLOAT:
      return read<float>(value);
    case DOUBLE:
      return read<double>(value);
    default:
      return read<unsigned long long>(value);
  }
}

void set_value(Counter* counter, void* value) noexcept {
  if (!counter || !value) return;
  double number = read(counter->type, value);
  constexpr double kMost = 9e18;
  if (number > -kMost && number < kMost) std::atomic_ref(counter->value).store(static_cast<long>(number), std::memory_order_relaxed);
  report(*counter, number);
}
void set_value_ex(Counter* counter, void*, Timestamp, void* value) noexcept { set_value(counter, value); }

}  // namespace

void each_of_counters(void* context, Visit visit) noexcept {
  visit(context, entry("__itt_counter_create", create));
  visit(context, entry("__itt_counter_create_typed", create_typed));
  visit(context, entry("__itt_counter_create_v3", create_v3));
  visit(context, entry("__itt_counter_inc", inc));
  visit(context, entry("__itt_counter_dec", dec));
  visit(context, entry("__itt_counter_inc_delta", inc_delta));
  visit(context, entry("__itt_counter_dec_delta", dec_delta));
  visit(context, entry("__itt_counter_inc_v3", inc_v3));
  visit(context, entry("__itt_counter_dec_v3", dec_v3));
  visit(context, entry("__itt_counter_inc_delta_v3", inc_delta_v3));
  visit(context, entry("__itt_counter_dec_delta_v3", dec_delta_v3));
  visit(context, entry("__itt_counter_set_value", set_value));
  visit(context, entry("__itt_counter_set_value_v3", set_value));
  visit(context, entry("__itt_counter_set_value_ex", set_value_ex));
}

}  // namespace aiflame::itt
