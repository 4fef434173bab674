#include "hooks/cuda/sharing.hpp"

#include "base/large.hpp"
#include "base/sys.hpp"
#include "hooks/cuda/cuda.hpp"
#include "hooks/cuda/internal.hpp"
#include "hooks/shared/helper_thread.hpp"

#include <dlfcn.h>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>

namespace aiflame::cuda::sharing {

namespace {

constexpr uint32_t kMostKinds = 256;
constinit std::atomic<uint32_t> entering{0};  // threads in a wrapper, whose effects are not counted yet
constinit std::atomic<uint32_t> subscribers{0};
constinit std::atomic<uint64_t> kinds[kMostKinds / 64]{};  // activities that other tools have switched on
// Kinds that other tools have switched on in one context: its address and the kind. A kind without a place here counts as on in all
// contexts.
constexpr uint32_t kMostInContexts = 128;
AIFLAME_LARGE constinit std::atomic<uint64_t> in_contexts[kMostInContexts]{};

// The other tool's two functions for buffers, and the buffers that it has lent. CUPTI returns all buffers to the callback that was registered
// last, so we must pass the other tool's buffers on.
constexpr uint32_t kMostLent = 4096;
constinit std::atomic<CUpti_BuffersCallbackRequestFunc> request{nullptr};
constinit std::atomic<CUpti_BuffersCallbackCompleteFunc> complete{nullptr};
constinit std::atomic<const Real*> registered_with{nullptr};
AIFLAME_LARGE constinit std::atomic<uint8_t*> lent[kMostLent]{};
constinit std::atomic<uint32_t> lent_count{0};

constinit std::atomic<CUpti_TimestampCallbackFunc> their_clock{nullptr};
char name[128];

// The other tool has left when it had nothing switched on for this long. Its last records may come after it has switched off: it flushes them
// itself, or we do when it takes too long.
constexpr uint32_t kPauseMs = 100, kMostPauses = 50;
constinit std::atomic<bool> waiting{false};
// We stepped aside for another tool, or could not begin beside it: only then do we wait, since most users of CUPTI never run beside us. The driver
// may still be in its cuInit when they leave: we try for as long as that may take.
constexpr uint32_t kMostTries = 100;
constinit std::atomic<bool> owed{false};
// Our functions for buffers are the registered ones.
constinit std::atomic<bool> ours_registered{false};

bool is_ours(const Real& real) noexcept { return cupti().version && real.ActivityEnable == cupti().ActivityEnable; }
bool disturbs_us(const Real& real) noexcept { return collecting() && is_ours(real); }

void CUPTIAPI on_buffer_wanted(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = nullptr;
  *bytes = *most_records = 0;
  auto* theirs = request.load();
  if (theirs) theirs(buffer, bytes, most_records);  // else they have ended all use of CUPTI while this was on its way
  if (!*buffer) return;
  lent_count.fetch_add(1);
  for (auto& place : lent) {
    uint8_t* nothing = nullptr;
    if (place.compare_exchange_strong(nothing, *buffer)) return;
  }
  // A buffer without a place in `lent` would later be taken for one of ours. CUPTI counts the records for which it has no buffer.
  lent_count.fetch_sub(1);
  if (auto* theirs_again = complete.load()) theirs_again(nullptr, 0, *buffer, *bytes, 0);
  *buffer = nullptr;
  *bytes = 0;
}

void register_theirs(const Real& real) noexcept {
  if (!request.load()) return;
  real.ActivityRegisterCallbacks(on_buffer_wanted, on_buffer_full);
  if (is_ours(real)) ours_registered.store(false);
}

void tell_name(const void* caller) noexcept {
  Dl_info module{};
  const char* path = dladdr(caller, &module) && module.dli_fname ? module.dli_fname : "";
  const char* slash = strrchr(path, '/');
  std::string_view file = slash ? slash + 1 : path;
  if (file.starts_with("libtorch") || file.starts_with("libkineto"))
    snprintf(name, sizeof name, "torch.profiler");
  else if (file.starts_with("libproton"))
    snprintf(name, sizeof name, "Proton");
  else
    snprintf(name, sizeof name, "another tool (%.*s)", static_cast<int>(file.size()), file.data());
}

// As long as it lives, its caller counts as a user.
class Arrival {
 public:
  explicit Arrival(const Call& call) noexcept {
    entering.fetch_add(1);
    tell_name(call.caller);
    yield_to(name);
    if (!ours_registered.load()) return;
    owed.store(true);
    if (const Real* theirs = registered_with.load()) register_theirs(*theirs);
  }
  ~Arrival();
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;
};

void pause() noexcept {
  timespec time{0, kPauseMs * 1'000'000};
  sys::call(SYS_nanosleep, reinterpret_cast<long>(&time), 0);
}

bool is_there() noexcept {
  if (entering.load() || subscribers.load()) return true;
  for (auto& word : kinds)
    if (word.load()) return true;
  for (auto& place : in_contexts)
    if (place.load()) return true;
  return false;
}

bool to_return() noexcept { return owed.load() && may_return() && !is_there(); }

void* wait_for_the_last(void*) noexcept {
  uint32_t tries = 0;
  do {
    uint32_t pauses = 0;
    do pause();
    while (!is_there() && lent_count.load() && ++pauses < kMostPauses);
    // CUPTI still holds a buffer of theirs, or one of ours with their records, which we do not write.
    if (!is_there() && (lent_count.load() || has_lent_buffers()) && may_return()) flush_activity(true);
    if (!is_there()) regain();
    if (++tries == kMostTries) owed.store(false);
    waiting.store(false);
    // A tool may have left before that, and seen us waiting.
  } while (to_return() && !waiting.exchange(true));
  return nullptr;
}

// Waits in a thread of its own: the tool that leaves may be in one of CUPTI's callbacks, and may have more to do there.
void come_back_later() noexcept {
  if (!to_return() || waiting.exchange(true)) return;
  if (!hooks::start_helper_thread(wait_for_the_last)) waiting.store(false);
}

Arrival::~Arrival() {
  entering.fetch_sub(1);
  come_back_later();
}

void switch_on(CUpti_ActivityKind kind) noexcept {
  if (static_cast<uint32_t>(kind) < kMostKinds) kinds[kind / 64].fetch_or(1ull << (kind % 64));
}

void switch_off(CUpti_ActivityKind kind) noexcept {
  if (static_cast<uint32_t>(kind) < kMostKinds) kinds[kind / 64].fetch_and(~(1ull << (kind % 64)));
}

uint64_t in_context(CUcontext context, CUpti_ActivityKind kind) noexcept { return reinterpret_cast<uint64_t>(context) * kMostKinds + kind; }

void switch_on_in(CUcontext context, CUpti_ActivityKind kind) noexcept {
  uint64_t wanted = in_context(context, kind);
  for (auto& place : in_contexts) {
    uint64_t there = 0;
    if (place.compare_exchange_strong(there, wanted) || there == wanted) return;
  }
  switch_on(kind);
}

void switch_off_in(CUcontext context, CUpti_ActivityKind kind) noexcept {
  bool found = false;
  for (auto& place : in_contexts) {
    uint64_t there = in_context(context, kind);
    found |= place.compare_exchange_strong(there, 0);
  }
  if (!found) switch_off(kind);
}

void switch_off_everywhere(CUpti_ActivityKind kind) noexcept {
  switch_off(kind);
  for (auto& place : in_contexts)
    if (uint64_t there = place.load(); there && there % kMostKinds == static_cast<uint64_t>(kind)) place.compare_exchange_strong(there, 0);
}

void forget_theirs() noexcept {
  subscribers.store(0);
  for (auto& word : kinds) word.store(0);
  for (auto& place : in_contexts) place.store(0);
  for (auto& place : lent) place.store(nullptr);
  lent_count.store(0);
  request.store(nullptr);
  complete.store(nullptr);
  their_clock.store(nullptr);
  registered_with.store(nullptr);
}

}  // namespace

bool in_use() noexcept {
  bool before = owed.exchange(true);  // before the look: a tool that leaves after it sees the flag
  if (is_there()) return true;
  owed.store(before);
  return false;
}

void registered_ours() noexcept { ours_registered.store(true); }

const char* user() noexcept { return name; }

bool give_back(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t used) noexcept {
  if (!lent_count.load()) return false;
  for (auto& place : lent) {
    uint8_t* there = buffer;
    if (!place.compare_exchange_strong(there, nullptr)) continue;
    if (auto* theirs = complete.load()) theirs(context, stream, buffer, bytes, used);
    lent_count.fetch_sub(1);
    return true;
  }
  return false;
}

CUpti_TimestampCallbackFunc clock() noexcept { return their_clock.load(); }

void after_fork_child() noexcept {
  waiting.store(false);
  owed.store(false);
  ours_registered.store(false);
  entering.store(0);
}

CUptiResult Subscribe(Call call, CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* their_data) noexcept {
  Arrival arrival(call);
  CUptiResult result = call.real.Subscribe(subscriber, callback, their_data);
  if (result == CUPTI_SUCCESS) subscribers.fetch_add(1);
  return result;
}

CUptiResult Subscribe_v2(Call call, CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* their_data,
                         CUpti_SubscriberParams* params) noexcept {
  Arrival arrival(call);
  CUptiResult result = call.real.Subscribe_v2(subscriber, callback, their_data, params);
  if (result == CUPTI_SUCCESS) subscribers.fetch_add(1);
  return result;
}

CUptiResult Unsubscribe(Call call, CUpti_SubscriberHandle subscriber) noexcept {
  CUptiResult result = call.real.Unsubscribe(subscriber);
  uint32_t count = subscribers.load();
  while (result == CUPTI_SUCCESS && count && !subscribers.compare_exchange_weak(count, count - 1)) continue;
  come_back_later();
  return result;
}

// Ends all use of CUPTI. A tool that has left already may call it late, when we are back: nothing of its is on that could end.
CUptiResult Finalize(Call call) noexcept {
  if (disturbs_us(call.real)) return CUPTI_SUCCESS;
  CUptiResult result = call.real.Finalize();
  if (result == CUPTI_SUCCESS) forget_theirs();
  come_back_later();
  return result;
}

CUptiResult ActivityRegisterCallbacks(Call call, CUpti_BuffersCallbackRequestFunc their_request,
                                      CUpti_BuffersCallbackCompleteFunc their_complete) noexcept {
  if (!their_request || !their_complete) return call.real.ActivityRegisterCallbacks(their_request, their_complete);
  Arrival arrival(call);
  complete.store(their_complete);
  request.store(their_request);
  registered_with.store(&call.real);
  CUptiResult result = call.real.ActivityRegisterCallbacks(on_buffer_wanted, on_buffer_full);
  // Kinds that the other tool had switched on wrote into our buffers so far; from here on they write into its own.
  if (is_ours(call.real) && has_lent_buffers()) cupti().ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  return result;
}

// While we collect, times are by our clock; theirs is set when we step aside.
CUptiResult ActivityRegisterTimestampCallback(Call call, CUpti_TimestampCallbackFunc their_function) noexcept {
  if (!their_function) return call.real.ActivityRegisterTimestampCallback(their_function);
  their_clock.store(their_function);
  return disturbs_us(call.real) ? CUPTI_SUCCESS : call.real.ActivityRegisterTimestampCallback(their_function);
}

CUptiResult ActivityEnable(Call call, CUpti_ActivityKind kind) noexcept {
  Arrival arrival(call);
  CUptiResult result = call.real.ActivityEnable(kind);
  if (result == CUPTI_SUCCESS) switch_on(kind);
  return result;
}

CUptiResult ActivityEnableAndDump(Call call, CUpti_ActivityKind kind) noexcept {
  Arrival arrival(call);
  CUptiResult result = call.real.ActivityEnableAndDump(kind);
  if (result == CUPTI_SUCCESS) switch_on(kind);
  return result;
}

CUptiResult ActivityEnableContext(Call call, CUcontext context, CUpti_ActivityKind kind) noexcept {
  Arrival arrival(call);
  CUptiResult result = call.real.ActivityEnableContext(context, kind);
  if (result == CUPTI_SUCCESS) switch_on_in(context, kind);
  return result;
}

CUptiResult ActivityDisable(Call call, CUpti_ActivityKind kind) noexcept {
  if (disturbs_us(call.real)) return CUPTI_SUCCESS;
  CUptiResult result = call.real.ActivityDisable(kind);
  switch_off_everywhere(kind);
  come_back_later();
  return result;
}

CUptiResult ActivityDisableContext(Call call, CUcontext context, CUpti_ActivityKind kind) noexcept {
  if (disturbs_us(call.real)) return CUPTI_SUCCESS;
  CUptiResult result = call.real.ActivityDisableContext(context, kind);
  switch_off_in(context, kind);
  come_back_later();
  return result;
}

}  // namespace aiflame::cuda::sharing
