#include "sampler/loop_turns.hpp"

#include "base/clock.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <cerrno>

namespace aiflame::loop_turns {

namespace {

constexpr uint64_t kLongNs = 80'000'000;   // asyncio calls 100 ms slow, and the first tick comes up to a period after the turn's begin
constexpr uint64_t kAtOnceNs = 1'000'000;  // events that were there already

}  // namespace

Turn ended(uint64_t begin_ns) noexcept {
  uint64_t now = now_ns();
  return {begin_ns, now - begin_ns >= kLongNs ? now : 0};
}

void note(const Turn& turn, bool found, bool no_wait) noexcept {
  int error = errno;
  control::Use use;
  Thread* thread = threads::self_if_known();
  if (thread && thread->row && control::recording())
    spool::append(
        schema::LoopTurn{
            .thread = thread->row,
            .due = no_wait || (found && now_ns() - turn.end_ns < kAtOnceNs),
            .begin_ns = turn.begin_ns,
            .end_ns = turn.end_ns,
        },
        use);
  errno = error;
}

}  // namespace aiflame::loop_turns
