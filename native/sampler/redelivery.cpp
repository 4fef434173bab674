#include "sampler/redelivery.hpp"

#include "base/sys.hpp"
#include "sampler/threads.hpp"
#include "sampler/tick_stack.hpp"

#include <cstring>

namespace aiflame::redelivery {

namespace {

using signals::Disposition;

constexpr uint64_t kMaskBytes = 8;

// A signal frame of Linux on x86-64 (arch/x86/include/asm/sigframe.h): the return address, ucontext, siginfo; then the data of xsave, anywhere
// above.
struct Frame {
  uint64_t return_address;
  char context[304];
  siginfo_t info;
};
static_assert(sizeof(Frame) == 440 && offsetof(Frame, info) == 312);
constexpr uint64_t kRedZone = 128, kXsaveAlignment = 64;

// The place of the floating-point state in the kernel's frame, and its size (arch/x86/include/uapi/asm/sigcontext.h).
uint64_t floating_point_bytes(const void* state) noexcept {
  constexpr uint64_t kSoftwareBytes = 464, kLegacy = 512;
  constexpr uint32_t kExtended = 0x46505853;
  uint32_t words[2];
  memcpy(words, static_cast<const char*>(state) + kSoftwareBytes, sizeof words);
  return words[0] == kExtended ? words[1] : kLegacy;
}

// Copies the frame below `top`. 0 when it would reach below `lowest`.
uint64_t copy_frame(const ucontext_t* context, uint64_t top, uint64_t lowest) noexcept {
  const void* state = context->uc_mcontext.fpregs;
  uint64_t state_bytes = state ? floating_point_bytes(state) : 0;
  uint64_t state_at = state ? (top - state_bytes) & ~(kXsaveAlignment - 1) : top;
  uint64_t at = ((state_at - sizeof(Frame)) & ~15ull) - 8;  // the stack as a function finds it that was called
  if (at >= top || at < lowest) return 0;
  if (state) memcpy(reinterpret_cast<void*>(state_at), state, state_bytes);
  memcpy(reinterpret_cast<void*>(at), reinterpret_cast<const char*>(context) - offsetof(Frame, context), sizeof(Frame));
  if (state) reinterpret_cast<ucontext_t*>(at + offsetof(Frame, context))->uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(state_at);
  return at;
}

// Switches to the frame's stack first, and to the program's mask only there: a signal that this unblocks finds the same stack as without us.
[[noreturn]] void enter(uint64_t frame, int signal, void (*handler)(int, siginfo_t*, void*), const uint64_t* mask) noexcept {
  uint64_t wanted = mask ? *mask : 0;
  register uint64_t function asm("r12") = reinterpret_cast<uint64_t>(handler);
  register uint64_t number asm("r13") = static_cast<uint64_t>(signal);
  register uint64_t has_mask asm("r14") = mask ? 1 : 0;
  asm volatile(
      "mov %[frame], %%rbx\n"
      "mov %[frame], %%rsp\n"
      "test %%r14, %%r14\n"
      "jz 1f\n"
      "mov %[wanted], -16(%%rsp)\n"
      "mov %[set], %%edi\n"
      "lea -16(%%rsp), %%rsi\n"
      "xor %%edx, %%edx\n"
      "mov %[bytes], %%r10d\n"
      "mov %[call], %%eax\n"
      "syscall\n"
      "1:\n"
      "mov %%r13d, %%edi\n"
      "lea %c[info](%%rbx), %%rsi\n"
      "lea %c[context](%%rbx), %%rdx\n"
      "xor %%eax, %%eax\n"
      "jmp *%%r12\n"
      :
      : [frame] "a"(frame), [wanted] "c"(wanted), "r"(function), "r"(number), "r"(has_mask), [set] "i"(SIG_SETMASK), [bytes] "i"(kMaskBytes),
        [call] "i"(SYS_rt_sigprocmask), [info] "i"(offsetof(Frame, info)), [context] "i"(offsetof(Frame, context))
      : "memory");
  __builtin_unreachable();
}

// A frame that does not fit ends the program, as it does without us.
[[noreturn]] void overflow() noexcept {
  struct {
    void (*handler)(int);
    unsigned long flags;
    void* restorer;
    uint64_t mask;
  } none{};
  uint64_t fault = 1ull << (SIGSEGV - 1);
  sys::call(SYS_rt_sigaction, SIGSEGV, reinterpret_cast<long>(&none), 0, kMaskBytes);
  sys::call(SYS_rt_sigprocmask, SIG_UNBLOCK, reinterpret_cast<long>(&fault), 0, kMaskBytes);
  for (;;) sys::call(SYS_tgkill, sys::process_id(), sys::thread_id(), SIGSEGV);
}

bool blocks_all(const Disposition& handler) noexcept {
  constexpr uint64_t kOrdinary = 0x7fffffff & ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1));
  uint64_t mask;
  memcpy(&mask, &handler.sa_mask, sizeof mask);
  return (mask & kOrdinary) == kOrdinary;
}

void call_here(int signal, siginfo_t* info, ucontext_t* context, const Disposition& handler, const uint64_t* mask) noexcept {
  if (mask) sys::call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(mask), 0, kMaskBytes);
  handler.sa_sigaction(signal, info, context);
}

}  // namespace

void call(int signal, siginfo_t* info, ucontext_t* context, const void* cfa, const Disposition& handler, const uint64_t* mask) noexcept {
  auto sp = static_cast<uint64_t>(context->uc_mcontext.gregs[REG_RSP]);
  Thread* thread = cfa == context ? tick_stack::owner(context) : nullptr;
  // A fault in our code, or a signal in a tick's last moment: the code on that stack is ours.
  if (!thread || tick_stack::holds(*thread, sp)) return call_here(signal, info, context, handler, mask);
  AlternateStack theirs = thread->theirs;
  // A runtime may have queried the kernel without libc, found our stack, and taken it for its own: Go does, and requires that its handlers, which
  // block every signal, run there.
  if (handler.sa_flags & SA_ONSTACK && !theirs.bytes && blocks_all(handler)) return call_here(signal, info, context, handler, mask);
  bool on_theirs = theirs.holds(sp), alternate = handler.sa_flags & SA_ONSTACK && theirs.bytes;
  uint64_t top = alternate && !on_theirs ? theirs.low + theirs.bytes : sp - kRedZone;
  uint64_t frame = copy_frame(context, top, alternate || on_theirs ? theirs.low : 0);
  frame ? enter(frame, signal, handler.sa_sigaction, mask) : overflow();
}

}  // namespace aiflame::redelivery
