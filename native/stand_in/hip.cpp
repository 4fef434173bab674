// Stands in for AMD's HIP runtime: libamdhip64.
#include "hooks/stand_in/hip_facts.hpp"
#include "stand_in/entries.hpp"

namespace aiflame::stand_in {

namespace {

constexpr Fact kFacts[] = {
#define NAME(name) hip_fact(#name),
#include "stand_in/hip.inc"
#undef NAME
};
constexpr uint32_t kCount = std::size(kFacts);
static_assert(ordered(kFacts));

constinit calls::Function functions[kCount] = {
#define NAME(name) {schema::CallBackend::HIP, #name},
#include "stand_in/hip.inc"
#undef NAME
};
constinit std::atomic<uint64_t> behind[kCount];

constexpr uint64_t kNotSupported = 801;

}  // namespace

}  // namespace aiflame::stand_in

using namespace aiflame;
using namespace aiflame::stand_in;

constinit Library aiflame_library{.backend = schema::CallBackend::HIP,
                                  .feature = schema::Feature::TRACE_HIP,
                                  .prefix = "hip",
                                  .file = "libamdhip64",
                                  .unknown = kNotSupported,
                                  .not_ready = kHipNotReady,
                                  .count = kCount,
                                  .facts = kFacts,
                                  .entries = aiflame_entries,
                                  .functions = functions,
                                  .behind = behind,
                                  .low = 0,
                                  .high = 0};

// The collector finds this library by this name.
extern "C" __attribute__((visibility("default"))) Library* const aiflame_hip = &aiflame_library;

asm(AIFLAME_ENTRIES_BEGIN
#define NAME AIFLAME_ENTRY
#include "stand_in/hip.inc"
#undef NAME
        AIFLAME_ENTRIES_END);
