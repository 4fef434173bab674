// The parts of ITT: each provides the functions that it serves.
#pragma once
#include "hooks/regions/itt_api.hpp"
#include "hooks/regions/regions.hpp"

#include <string_view>

namespace aiflame::itt {

// A function, by its name in the client's table.
struct Entry {
  std::string_view name;
  void* function;
};

template <class Result, class... Arguments>
Entry entry(std::string_view name, Result (*function)(Arguments...) noexcept) noexcept {
  return {name, reinterpret_cast<void*>(function)};
}

using Visit = void (*)(void* context, const Entry& entry);
void each_of_regions(void* context, Visit visit) noexcept;
void each_of_tasks(void* context, Visit visit) noexcept;
void each_of_counters(void* context, Visit visit) noexcept;

inline std::string_view view(const char* text) noexcept { return text ? std::string_view(text) : std::string_view(); }
inline std::string_view name_of(const Domain* domain) noexcept { return domain ? view(domain->name) : std::string_view(); }
inline std::string_view text_of(const StringHandle* string) noexcept { return string ? view(string->text) : std::string_view(); }

// A client skips the calls of a domain that is switched off, except the one that made it look for a collector.
inline bool is_off(const Domain* domain) noexcept { return domain && !domain->flags; }

inline regions::Spec spec_of(const Domain* domain, std::string_view name, schema::RegionKind kind) noexcept {
  return {.api = schema::RegionApi::ITT, .kind = kind, .domain = name_of(domain), .name = name};
}

// Regions that any thread ends, by their key.
void begin_keyed(const regions::Spec& spec, uint64_t key) noexcept;
void end_keyed(uint64_t key) noexcept;
// The row of an open region, 0: there is none.
uint32_t row_keyed(uint64_t key) noexcept;

// A number for an object with these parts, never 0.
uint64_t key_of(uint64_t what, uint64_t a, uint64_t b = 0, uint64_t c = 0) noexcept;
// 0 for the null id.
uint64_t key_of(const Domain* domain, const Id& id) noexcept;

}  // namespace aiflame::itt
