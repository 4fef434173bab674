#include "hooks/stand_in/level_zero_graphs.hpp"

#include "base/large.hpp"
#include "hooks/stand_in/level_zero_activity.hpp"
#include "hooks/stand_in/watched.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <iterator>

namespace aiflame::level_zero {

namespace {

using stand_in::Call;
using stand_in::ZeWatch;

constexpr uint32_t kChains = 4096;
AIFLAME_LARGE constinit Chain chains[kChains]{};
uint32_t used_chains = 0;  // all behind them are as they were at first
uint32_t capturing = 0;    // the chain into which lists record, counted from 1

Chain* chain(uint32_t number) noexcept { return number ? &chains[number - 1] : nullptr; }

uint32_t new_chain() noexcept {
  for (uint32_t at = 0; at < kChains; at++) {
    if (chains[at].users) continue;
    chains[at] = Chain{.users = 1};
    used_chains = std::max(used_chains, at + 1);
    return at + 1;
  }
  spool::note("Level Zero: more than 4096 graphs at once; kernels of some have no device times");
  return 0;
}

void release(const Api& api, uint32_t number) noexcept {
  Chain* one = chain(number);
  if (!one || --one->users) return;
  forget_commands(api, one->first, one->last);
}

void add_list(Chain& one, uint32_t number, Object& list) noexcept {
  list.chain = number;
  if (one.list_count < std::size(one.lists)) one.lists[one.list_count++] = list.handle;
}

void begins(Handle list, Handle graph) noexcept {
  Guard guard;
  Object* known = find(Kind::LIST, list);
  Object* into = graph ? find(Kind::GRAPH, graph) : nullptr;
  if (!known) return;
  uint32_t number = into ? into->chain : new_chain();
  if (!number) return;
  chains[number - 1].list_count = 0;
  add_list(chains[number - 1], number, *known);
  capturing = number;
}

void ends(const Api& api, Handle list, Handle graph) noexcept {
  Guard guard;
  Object* known = find(Kind::LIST, list);
  uint32_t number = known ? known->chain : 0;
  Chain* one = chain(number);
  if (!one) return;
  for (uint32_t at = 0; at < one->list_count; at++)
    if (Object* recorded = find(Kind::LIST, one->lists[at])) recorded->chain = 0;
  one->list_count = 0;
  if (capturing == number) capturing = 0;
  Object* object = graph ? find(Kind::GRAPH, graph) : nullptr;
  if (object && object->chain == number) return;
  if (object) release(api, object->chain);
  if (!object && graph) object = add(Kind::GRAPH, graph);
  if (object)
    object->chain = number;
  else
    release(api, number);
}

void instantiated(Handle graph, Handle executable) noexcept {
  Guard guard;
  Object* source = find(Kind::GRAPH, graph);
  Chain* one = source ? chain(source->chain) : nullptr;
  Object* object = one ? add(Kind::EXECUTABLE, executable) : nullptr;
  if (!object) return;
  object->chain = static_cast<uint32_t>(one - chains) + 1;
  one->users++;
}

uint64_t goes(const Api& api, Call& call, Kind kind) {
  if (in_flight()) collect(api, Effort::ALL);
  {
    Guard guard;
    if (Object* object = find(kind, call.words[0])) {
      release(api, object->chain);
      remove(*object);
    }
  }
  return call.go();
}

template <class Then>
uint64_t go_then(Call& call, Then then) {
  uint64_t result = call.go();
  if (static_cast<uint32_t>(result) == kSuccess && control::recording()) then();
  return result;
}

bool records(const Api& api, Handle list) noexcept {
  uint32_t answer = api.zeCommandListIsGraphCaptureEnabledExt ? api.zeCommandListIsGraphCaptureEnabledExt(list) : kSuccess;
  return answer == kQueryTrue || answer == kQueryTrueExp;
}

// Where the call has written a handle.
Handle given(uint64_t place) noexcept { return place ? *reinterpret_cast<const Handle*>(place) : 0; }

// `graph`: where the call writes it. A call that fails may end the recording, too.
uint64_t end_capture(const Api& api, Call& call, uint64_t graph) {
  uint64_t result = call.go();
  bool success = static_cast<uint32_t>(result) == kSuccess;
  if (success || !records(api, call.words[0])) ends(api, call.words[0], success ? given(graph) : 0);
  return result;
}

// zeCommandListAppendGraphExt(list, graph, …)
uint64_t append_graph(const Api& api, Call& call) {
  Replaying replaying(api, call.words[0], call.words[1], call.frame.caller());
  uint64_t result = call.go();
  replaying.done(static_cast<uint32_t>(result) == kSuccess);
  return result;
}

}  // namespace

uint64_t graph_call(const Api& api, Call& call) {
  const auto& words = call.words;
  switch (static_cast<ZeWatch>(call.fact.watch)) {
    case ZeWatch::BEGIN_CAPTURE:  // (list, …)
      return go_then(call, [&] { begins(words[0], 0); });
    case ZeWatch::BEGIN_CAPTURE_INTO:  // (list, graph, …)
      return go_then(call, [&] { begins(words[0], words[1]); });
    case ZeWatch::END_CAPTURE:  // (list, next, &graph)
      return end_capture(api, call, words[2]);
    case ZeWatch::END_CAPTURE_EXP:  // (list, &graph, next)
      return end_capture(api, call, words[1]);
    case ZeWatch::INSTANTIATE:  // (graph, next, &executable)
      return go_then(call, [&] { instantiated(words[0], given(words[2])); });
    case ZeWatch::INSTANTIATE_EXP:  // (graph, &executable, next)
      return go_then(call, [&] { instantiated(words[0], given(words[1])); });
    case ZeWatch::APPEND_GRAPH:
      return append_graph(api, call);
    case ZeWatch::DESTROY_GRAPH:
      return goes(api, call, Kind::GRAPH);
    case ZeWatch::DESTROY_EXECUTABLE:
      return goes(api, call, Kind::EXECUTABLE);
    default:
      return call.go();
  }
}

Chain* chain_of_list(const Api& api, Object& list) noexcept {
  // A list that waits for an event of a captured command records into that graph, too.
  if (!list.chain && capturing && list.immediate && records(api, list.handle)) add_list(chains[capturing - 1], capturing, list);
  return chain(list.chain);
}

Chain* chain_of_executable(Handle graph) noexcept {
  Object* object = find(Kind::EXECUTABLE, graph);
  return object ? chain(object->chain) : nullptr;
}

void forget_chains() noexcept {
  std::fill(chains, chains + used_chains, Chain{});
  used_chains = 0;
  capturing = 0;
}

}  // namespace aiflame::level_zero
