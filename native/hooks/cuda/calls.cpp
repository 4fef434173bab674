#include "hooks/cuda/calls.hpp"

#include "base/large.hpp"
#include "hooks/cuda/call_bytes.hpp"
#include "hooks/cuda/skip_driver_frames.hpp"
#include "records/calls.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"

#include <atomic>

namespace aiflame::cuda::tracing {

namespace {

// How to read success from a function's result.
enum class Answer : uint8_t {
  OWN,      // whether it failed
  EARLIER,  // whether an earlier call did
  NONE,     // something else than an error
};

struct Known {
  std::atomic<calls::Function*> function{nullptr};  // nullptr: not called yet
  std::atomic<uint8_t> bytes{0};                    // as the number of bytes::find()
  std::atomic<Answer> answer{Answer::OWN};
};
// The calls of the driver's API, then those of the runtime's.
AIFLAME_LARGE constinit Known known[2][kMostCalls]{};

Known& known_of(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept { return known[domain == CUPTI_CB_DOMAIN_RUNTIME_API][id % kMostCalls]; }

struct Outermost {
  uint32_t depth;
  uint32_t subscription;
  uint64_t frame;  // its stack address: a call from a higher address means that a longjmp left this one
  calls::Begun begun;
  uint32_t ours;
};
thread_local Outermost outermost;

// CUPTI has a number behind each name of the runtime's: of the release in which the function took these parameters.
std::string_view plain(CUpti_CallbackDomain domain, std::string_view name) noexcept {
  constexpr size_t kShortest = 4;
  size_t end = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? name.find_last_not_of("0123456789") : name.npos;
  bool numbered = end != name.npos && end > 0 && name.size() - end > kShortest && name[end - 1] == '_' && name[end] == 'v';
  return numbered ? std::string_view(name.data(), end - 1) : name;  // substr() may throw, which would bring libstdc++'s unwinder
}

calls::Function* function_of(Known& of, CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept {
  calls::Function* function = of.function.load(std::memory_order_acquire);
  if (function) [[likely]]
    return function;
  const char* name = nullptr;
  if (cupti().GetCallbackName(domain, id, &name) != CUPTI_SUCCESS || !name) return nullptr;
  function = calls::named(schema::CallBackend::CUDA, plain(domain, name));
  of.function.store(function, std::memory_order_release);
  return function;
}

Answer answer_of(std::string_view name) noexcept {
  if (name.starts_with("cudaGetLastError") || name.starts_with("cudaPeekAtLastError")) return Answer::EARLIER;
  for (std::string_view other : {"cudaGetErrorString_", "cudaGetErrorName_", "cudaCreateChannelDesc_"})
    if (name.starts_with(other)) return Answer::NONE;
  return Answer::OWN;
}

// The state of a stream or an event, not a failure. The same number in both APIs.
constexpr int32_t kNotReady = CUDA_ERROR_NOT_READY;
static_assert(kNotReady == 600 && sizeof(CUresult) == sizeof(int32_t));

}  // namespace

bool wanted() noexcept { return control::has(schema::Feature::TRACE_CUDA); }

void learn(CUpti_CallbackDomain domain, CUpti_CallbackId id, std::string_view name) noexcept {
  Known& of = known_of(domain, id);
  of.bytes.store(bytes::find(name), std::memory_order_relaxed);
  of.answer.store(answer_of(name), std::memory_order_relaxed);
}

void enter(uint32_t subscription, const Registers& from, uint32_t stack) noexcept {
  if (outermost.ours) return;
  if (outermost.subscription != subscription || from.sp >= outermost.frame) outermost.depth = 0;
  if (outermost.depth++) return;
  outermost.subscription = subscription;
  outermost.frame = from.sp;
  Thread* thread = !stack && control::has(schema::Feature::TRACE_STACKS) ? threads::self() : nullptr;
  if (thread) stack = capture(*thread, from, skip_driver_frames);
  outermost.begun = calls::begin(from, calls::Stack::NONE);
  outermost.begun.stack = stack;
}

void leave(uint32_t subscription, CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& data) noexcept {
  if (outermost.ours || !outermost.depth || outermost.subscription != subscription) return;
  if (--outermost.depth || !outermost.begun.recording) return;
  Known& of = known_of(domain, id);
  calls::Function* function = function_of(of, domain, id);
  if (!function) return;
  Answer answer = of.answer.load(std::memory_order_relaxed);
  bool answered = data.functionReturnValue && answer != Answer::NONE;
  int32_t result = answered ? *static_cast<const int32_t*>(data.functionReturnValue) : 0;
  uint8_t bytes = of.bytes.load(std::memory_order_relaxed);
  calls::end(outermost.begun, *function,
             {.result = result,
              .failed = answer == Answer::OWN && result != 0 && result != kNotReady,
              .bytes = bytes && data.functionParams ? bytes::asked_for(bytes, data.functionParams, result == 0) : 0});
}

Ours::Ours() noexcept { outermost.ours++; }
Ours::~Ours() { outermost.ours--; }

}  // namespace aiflame::cuda::tracing
