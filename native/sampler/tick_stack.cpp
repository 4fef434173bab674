#include "sampler/tick_stack.hpp"

#include "base/safe_load.hpp"
#include "base/sys.hpp"
#include "sampler/threads.hpp"

#include <sys/mman.h>
#include <cerrno>
#include <csignal>

namespace aiflame::tick_stack {

namespace {

constexpr size_t kGuard = 4096;
constexpr int kAutoDisarm = 1 << 31;  // SS_AUTODISARM: the kernel takes the stack away while a handler runs on it

uint64_t low_of(const Thread& thread) noexcept { return reinterpret_cast<uint64_t>(&thread) - kBytes; }

stack_t ours(const Thread& thread) noexcept {
  stack_t stack{};
  stack.ss_sp = reinterpret_cast<void*>(low_of(thread) + kGuard);
  stack.ss_size = kBytes - kGuard;
  return stack;
}

stack_t as_the_kernel_has_it(const AlternateStack& stack) noexcept {
  stack_t result{};
  result.ss_sp = reinterpret_cast<void*>(stack.low);
  result.ss_size = stack.bytes;
  result.ss_flags = stack.bytes ? 0 : SS_DISABLE;
  return result;
}

AlternateStack enabled(const stack_t& stack) noexcept {
  if (stack.ss_flags & SS_DISABLE) return {};
  return {reinterpret_cast<uint64_t>(stack.ss_sp), stack.ss_size};
}

bool set(const stack_t* wanted, stack_t* before) noexcept {
  return !sys::failed(sys::call(SYS_sigaltstack, reinterpret_cast<long>(wanted), reinterpret_cast<long>(before)));
}

// The program's pointer may be invalid: then we return the kernel's error.
bool readable(const stack_t* stack, stack_t* copy) noexcept {
  constexpr uint64_t kWords = sizeof(stack_t) / 8;
  auto from = reinterpret_cast<uint64_t>(stack);
  auto* to = reinterpret_cast<uint64_t*>(copy);
  for (uint64_t at = 0; at < kWords; at++) {
    to[at] = safe_load(from + 8 * at, 0);
    if (to[at] == 0 && safe_load(from + 8 * at, 1) != 0) return false;
  }
  return true;
}
bool writable(stack_t* stack) noexcept { return set(nullptr, stack); }

// Cases that the kernel refuses.
int error_in(const stack_t& wanted) noexcept {
  int mode = wanted.ss_flags & ~kAutoDisarm;
  if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0) return EINVAL;
  constexpr size_t kSmallest = 2048;  // MINSIGSTKSZ of the kernel's interface, even if its frames need more
  return mode != SS_DISABLE && wanted.ss_size < kSmallest ? ENOMEM : 0;
}

}  // namespace

void* map_with_thread(size_t thread_bytes, bool guarded) noexcept {
  auto* low = static_cast<char*>(sys::map_memory(kBytes + thread_bytes));
  if (!low) return nullptr;
  if (guarded) sys::call(SYS_mprotect, reinterpret_cast<long>(low), kGuard, PROT_NONE);
  return low + kBytes;
}

bool install(Thread& thread) noexcept {
  if (thread.ticks_apart) return true;
  stack_t stack = ours(thread), before{};
  if (!set(&stack, &before)) return false;
  if (before.ss_sp != stack.ss_sp) thread.theirs = enabled(before);
  return thread.ticks_apart = true;
}

void install_on_return(Thread& thread, ucontext_t* context) noexcept {
  stack_t stack = ours(thread);
  if (context->uc_stack.ss_sp != stack.ss_sp) thread.theirs = enabled(context->uc_stack);
  context->uc_stack = stack;
  thread.ticks_apart = true;
}

void remove(Thread& thread) noexcept {
  if (!thread.ticks_apart) return;
  thread.ticks_apart = false;
  stack_t now{}, theirs = as_the_kernel_has_it(thread.theirs);
  thread.theirs = {};
  if (set(nullptr, &now) && now.ss_sp == ours(thread).ss_sp) set(&theirs, nullptr);
}

Thread* owner(const ucontext_t* context) noexcept {
  const stack_t& stack = context->uc_stack;
  auto low = reinterpret_cast<uint64_t>(stack.ss_sp);
  if (stack.ss_size != kBytes - kGuard || reinterpret_cast<uint64_t>(context) - low >= stack.ss_size) return nullptr;
  // Another's stack of this very size may end before anything.
  uint64_t candidate = low + stack.ss_size;
  auto* thread = reinterpret_cast<Thread*>(candidate);
  return safe_load(reinterpret_cast<uint64_t>(&thread->itself)) == candidate ? thread : nullptr;
}

bool runs_on_alternate(const ucontext_t* context) noexcept {
  return enabled(context->uc_stack).holds(static_cast<uint64_t>(context->uc_mcontext.gregs[REG_RSP]));
}

bool holds(const Thread& thread, uint64_t address) noexcept { return address - low_of(thread) < kBytes; }

int exchange(Thread& thread, const stack_t* wanted, stack_t* before, uint64_t sp) noexcept {
  stack_t asked{};
  if ((wanted && !readable(wanted, &asked)) || (before && !writable(before))) return EFAULT;
  AlternateStack old = thread.theirs;
  if (wanted) {
    if (old.holds(sp)) return EPERM;
    if (int error = error_in(asked)) return error;
    thread.theirs = enabled(asked);
    // The kernel switches such a stack off while a handler runs on it, which no table of ours could do: so it becomes the kernel's.
    if (thread.theirs.bytes && asked.ss_flags & kAutoDisarm) {
      if (!set(&asked, nullptr)) return EPERM;
      thread.theirs = {};
      thread.ticks_apart = false;
    }
  }
  if (before) {
    *before = as_the_kernel_has_it(old);
    if (old.holds(sp)) before->ss_flags = SS_ONSTACK;
  }
  return 0;
}

}  // namespace aiflame::tick_stack
