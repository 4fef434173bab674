// Prints the answer of hooks/cuda/life.hpp to every event in every state: STATE EVENT NEXT STEPS…
#include "hooks/cuda/life.hpp"

#include <cstdio>

using namespace aiflame::cuda;

namespace {

constexpr const char* kStates[] = {"ABSENT", "COLLECTING", "ASIDE", "STOPPED", "GONE"};
constexpr const char* kEvents[] = {"START", "YIELD", "REGAIN", "STOP", "EXIT", "FORK_CHILD"};
const char* name(LifeStep step) {
  switch (step) {
    case LifeStep::NONE:
      return "";
    case LifeStep::SUBSCRIBE:
      return " SUBSCRIBE";
    case LifeStep::ENABLE_ACTIVITY:
      return " ENABLE_ACTIVITY";
    case LifeStep::START_SAMPLING:
      return " START_SAMPLING";
    case LifeStep::START_WORKER:
      return " START_WORKER";
    case LifeStep::STOP_WORKER:
      return " STOP_WORKER";
    case LifeStep::STOP_SAMPLING:
      return " STOP_SAMPLING";
    case LifeStep::DISABLE_ACTIVITY:
      return " DISABLE_ACTIVITY";
    case LifeStep::FLUSH:
      return " FLUSH";
    case LifeStep::UNSUBSCRIBE:
      return " UNSUBSCRIBE";
    case LifeStep::FORGET:
      return " FORGET";
  }
  return " ?";
}

}  // namespace

int main() {
  for (int state = 0; state < 5; state++)
    for (int event = 0; event < 6; event++) {
      LifeChange change = life_change(static_cast<LifeState>(state), static_cast<LifeEvent>(event));
      printf("%s %s %s", kStates[state], kEvents[event], kStates[static_cast<int>(change.next)]);
      for (LifeStep step : change.steps) fputs(name(step), stdout);
      puts("");
    }
}
