// Stands in for functions of a driver of Level Zero that the loader does not have. Programs get them by their address: no name is exported.
#define AIFLAME_LIBRARY "aiflame_extensions_library"
#define AIFLAME_ENTRIES "aiflame_extensions_entries"
#include "stand_in/entries.hpp"
#include "stand_in/level_zero_facts.hpp"

namespace aiflame::stand_in {

namespace {

constexpr Fact kFacts[] = {
#define NAME(name) fact(#name),
#include "stand_in/level_zero_extensions.inc"
#undef NAME
};
constexpr uint32_t kCount = std::size(kFacts);
static_assert(ordered(kFacts));

constinit calls::Function functions[kCount] = {
#define NAME(name) {schema::CallBackend::LEVEL_ZERO, #name},
#include "stand_in/level_zero_extensions.inc"
#undef NAME
};
constinit std::atomic<uint64_t> behind[kCount];

}  // namespace

}  // namespace aiflame::stand_in

using namespace aiflame;
using namespace aiflame::stand_in;

extern "C" __attribute__((visibility("hidden"))) const char aiflame_extensions_entries[];
extern "C" __attribute__((visibility("hidden"))) constinit Library aiflame_extensions_library{.backend = schema::CallBackend::LEVEL_ZERO,
                                                                                              .feature = schema::Feature::TRACE_ZE,
                                                                                              .prefix = "ze",
                                                                                              .file = "libze_",
                                                                                              .unknown = kUninitialized,
                                                                                              .not_ready = kNotReady,
                                                                                              .count = kCount,
                                                                                              .facts = kFacts,
                                                                                              .entries = aiflame_extensions_entries,
                                                                                              .functions = functions,
                                                                                              .behind = behind,
                                                                                              .low = 0,
                                                                                              .high = 0};

// The collector finds this library by this name.
extern "C" __attribute__((visibility("default"))) Library* const aiflame_level_zero_extensions = &aiflame_extensions_library;

asm(AIFLAME_ENTRIES_BEGIN
#define NAME AIFLAME_HIDDEN_ENTRY
#include "stand_in/level_zero_extensions.inc"
#undef NAME
        AIFLAME_ENTRIES_END);
