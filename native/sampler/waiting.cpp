#include "sampler/waiting.hpp"

#include "base/safe_load.hpp"
#include "base/sys.hpp"
#include "sampler/disposition.hpp"
#include "sampler/task_list.hpp"

#include <bit>
#include <cerrno>
#include <csignal>

namespace aiflame::waiting {

namespace {

// /proc/PID/task/TID/syscall: the number in decimal, then six arguments in hexadecimal (proc(5)); "running" where it runs.
class Fields {
 public:
  explicit Fields(const char* text) noexcept : at_(text) {}

  int64_t number() noexcept {
    if (*at_ < '0' || *at_ > '9') return -1;
    int64_t value = 0;
    for (; *at_ >= '0' && *at_ <= '9'; at_++) value = value * 10 + (*at_ - '0');
    return value;
  }
  uint64_t argument() noexcept {
    while (*at_ == ' ') at_++;
    if (at_[0] == '0' && at_[1] == 'x') at_ += 2;
    uint64_t value = 0;
    for (;; at_++) {
      char c = *at_;
      if (c >= '0' && c <= '9')
        value = value << 4 | static_cast<uint64_t>(c - '0');
      else if (c >= 'a' && c <= 'f')
        value = value << 4 | static_cast<uint64_t>(c - 'a' + 10);
      else
        return value;
    }
  }

 private:
  const char* at_;
};

// With a time limit, a call that is made again would wait for all of it once more.
bool waits_for_ever(int64_t call, const uint64_t (&argument)[6]) noexcept {
  switch (call) {
    case SYS_futex: {
      constexpr uint64_t kOperation = 0x7f, kWait = 0, kWaitBitset = 9;
      uint64_t operation = argument[1] & kOperation;
      return operation == kWaitBitset || (operation == kWait && argument[3] == 0);  // the first has an absolute time
    }
    case SYS_wait4:
    case SYS_read:
    case SYS_accept:
    case SYS_accept4:
      return true;
    case SYS_poll:
      return static_cast<int32_t>(argument[2]) < 0;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return static_cast<int32_t>(argument[3]) < 0;
    case SYS_select:
    case SYS_pselect6:
      return argument[4] == 0;
    case SYS_ppoll:
      return argument[2] == 0;
    default:
      return false;
  }
}

// Calls that a handler without SA_RESTART ends, and one with it does not (signal(7)).
bool is_restarted(int64_t call) noexcept {
  switch (call) {
    case SYS_read:
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
    case SYS_ioctl:
    case SYS_open:
    case SYS_openat:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_flock:
    case SYS_fcntl:
    case SYS_mq_timedreceive:
    case SYS_mq_timedsend:
    case SYS_futex:
      return true;
    default:
      return false;
  }
}

// Calls that any handler ends, also one with SA_RESTART (signal(7)).
bool is_ended_by_handlers(uint32_t call) noexcept {
  switch (call) {
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_msgrcv:
    case SYS_msgsnd:
    case SYS_io_getevents:
    case SYS_rt_sigtimedwait:
      return true;
    default:
      return false;
  }
}

constexpr uint64_t kSyscall = 0x050f, kTwoBytes = 0xffff;

}  // namespace

int call_of(uint32_t tid) noexcept {
  char text[192];
  long length = read_task_file(tid, "syscall", text, sizeof text - 1);
  if (length <= 0) return -1;
  text[length] = 0;
  Fields fields(text);
  int64_t call = fields.number();
  if (call < 0) return -1;
  uint64_t argument[6];
  for (uint64_t& value : argument) value = fields.argument();
  return waits_for_ever(call, argument) ? static_cast<int>(call) : -1;
}

int ended_call(const ucontext_t* context) noexcept {
  constexpr uint64_t kMoveToAx = 0xb8, kByte = 0xff, kFurthest = 16;
  auto pc = static_cast<uint64_t>(context->uc_mcontext.gregs[REG_RIP]);
  if (context->uc_mcontext.gregs[REG_RAX] != -EINTR || (safe_load(pc - 2) & kTwoBytes) != kSyscall) return -1;
  for (uint64_t back = 7; back <= kFurthest; back++) {
    if ((safe_load(pc - back) & kByte) != kMoveToAx) continue;
    auto call = static_cast<uint32_t>(safe_load(pc - back + 1));
    if (is_ended_by_handlers(call)) return static_cast<int>(call);
  }
  return -1;
}

void resume(ucontext_t* context, int call) noexcept {
  auto& pc = context->uc_mcontext.gregs[REG_RIP];
  auto& result = context->uc_mcontext.gregs[REG_RAX];
  if (call < 0 || result != -EINTR || (safe_load(static_cast<uint64_t>(pc) - 2) & kTwoBytes) != kSyscall) return;
  pc -= 2;
  result = call;
}

bool to_be_repeated(const ucontext_t* context) noexcept {
  auto pc = static_cast<uint64_t>(context->uc_mcontext.gregs[REG_RIP]);
  return is_restarted(context->uc_mcontext.gregs[REG_RAX]) && (safe_load(pc) & kTwoBytes) == kSyscall;
}

void end_call(ucontext_t* context) noexcept {
  if (!to_be_repeated(context)) return;
  context->uc_mcontext.gregs[REG_RIP] += 2;
  context->uc_mcontext.gregs[REG_RAX] = -EINTR;
}

bool interrupting_signal_pending(const ucontext_t* context, bool any_handler) noexcept {
  uint64_t pending = 0;
  sys::call(SYS_rt_sigpending, reinterpret_cast<long>(&pending), sizeof pending);
  pending &= ~*reinterpret_cast<const uint64_t*>(&context->uc_sigmask);
  for (; pending; pending &= pending - 1) {
    signals::KernelAction action{};
    sys::call(SYS_rt_sigaction, std::countr_zero(pending) + 1, 0, reinterpret_cast<long>(&action), sizeof(uint64_t));
    bool function = action.handler != reinterpret_cast<uint64_t>(SIG_DFL) && action.handler != reinterpret_cast<uint64_t>(SIG_IGN);
    if (function && (any_handler || !(action.flags & SA_RESTART))) return true;
  }
  return false;
}

void repeat_ended(ucontext_t* context) noexcept {
  int call = ended_call(context);
  if (call >= 0 && !interrupting_signal_pending(context, true)) resume(context, call);
}

}  // namespace aiflame::waiting
