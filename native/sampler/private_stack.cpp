#include "sampler/private_stack.hpp"

#include "base/sys.hpp"

#include <atomic>
#include <csignal>

namespace aiflame::private_stack {

namespace {

constexpr size_t kBytes = 64 * 1024;

// A stack, taken while this object lives. Few are in use at the same time, however many threads there are: they are reused.
class Borrowed {
 public:
  Borrowed() noexcept {
    for (auto& spare : spares)
      if (spare.load(std::memory_order_relaxed) && (low_ = spare.exchange(nullptr, std::memory_order_acquire))) return;
    low_ = static_cast<char*>(sys::map_memory(kBytes));
  }
  ~Borrowed() {
    if (!low_) return;
    for (auto& spare : spares) {
      char* none = nullptr;
      if (spare.compare_exchange_strong(none, low_, std::memory_order_release)) return;
    }
    sys::unmap_memory(low_, kBytes);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  explicit operator bool() const noexcept { return low_ != nullptr; }
  char* top() const noexcept { return low_ + kBytes; }

 private:
  inline static std::atomic<char*> spares[16];
  char* low_ = nullptr;
};

bool is_in(const void* address, const stack_t& stack) noexcept {
  return static_cast<size_t>(static_cast<const char*>(address) - static_cast<const char*>(stack.ss_sp)) < stack.ss_size;
}

__attribute__((noinline)) void call_on(char* top, void (*work)(void*) noexcept, void* argument) noexcept {
  asm volatile(
      "mov %%rsp, %%rbx\n"
      "mov %[top], %%rsp\n"
      "call *%[work]\n"
      "mov %%rbx, %%rsp\n"
      : "+D"(argument)
      : [top] "r"(top), [work] "r"(work)
      : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
        "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

// Seen from another stack, the alternate one looks unused: a fault of safe_load would be handled at its top, and overwrite data there. So the
// thread has none while `work` runs. (The kernel refuses such a change on the alternate stack itself.)
struct Work {
  void (*work)(void*) noexcept;
  void* argument;
};

void without_alternate_stack(void* pointer) noexcept {
  auto* inner = static_cast<Work*>(pointer);
  stack_t none{}, before{};
  none.ss_flags = SS_DISABLE;
  bool changed = !sys::failed(sys::call(SYS_sigaltstack, reinterpret_cast<long>(&none), reinterpret_cast<long>(&before)));
  inner->work(inner->argument);
  if (changed) sys::call(SYS_sigaltstack, reinterpret_cast<long>(&before), 0);
}

}  // namespace

void run(const ucontext_t* context, void (*work)(void*) noexcept, void* argument) noexcept {
  if (!is_in(__builtin_frame_address(0), context->uc_stack)) [[likely]]
    return work(argument);
  Borrowed stack;
  if (!stack) return work(argument);
  Work inner{work, argument};
  call_on(stack.top(), without_alternate_stack, &inner);
}

}  // namespace aiflame::private_stack
