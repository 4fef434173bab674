// Ranges that one thread replaces again and again while others look addresses up: each finds a range as it once was, whole.
#include "unwind/snapshot.hpp"
#include "check.hpp"
#include "recording.hpp"

using namespace aiflame;
using sanitized::check;

namespace {

constexpr uint64_t kVersions = 3000, kApart = 64;

// Of version v there are `kApart * n` to `+ kApart` for all n below count_of(v), each with the same proof in all of its words.
struct Range {
  uint64_t low, high, version, proof[6];
};
constexpr uint64_t count_of(uint64_t version) { return 1 + version * 7 % 900; }
constexpr uint64_t proof_of(uint64_t low, uint64_t version) { return low * 0x9E3779B97F4A7C15u ^ version; }

Snapshot<Range> snapshot;

void write(std::atomic<uint64_t>& published) {
  for (uint64_t version = 1; version <= kVersions; version++) {
    uint64_t count = count_of(version);
    Range* draft = snapshot.draft(count);
    if (!check(draft)) return;
    for (uint64_t at = 0; at < count; at++) {
      draft[at] = {.low = at * kApart, .high = (at + 1) * kApart, .version = version, .proof = {}};
      for (uint64_t& word : draft[at].proof) word = proof_of(at * kApart, version);
    }
    snapshot.publish(count);
    published.store(version, std::memory_order_release);
  }
}

void read(const std::atomic<uint64_t>& published, uint64_t address) {
  for (uint64_t before = 0; before < kVersions;) {
    before = published.load(std::memory_order_acquire);
    Range range;
    address = (address + 7919) % (900 * kApart);
    if (!snapshot.find(address, &range)) {
      check(before < kVersions || address / kApart >= count_of(kVersions));
      continue;
    }
    check(range.low <= address && address < range.high && range.version >= before && range.version <= kVersions);
    check(address / kApart < count_of(range.version));
    for (uint64_t word : range.proof) check(word == proof_of(range.low, range.version));
  }
}

}  // namespace

int main() {
  std::atomic<uint64_t> published{0};
  sanitized::in_threads(4, [&](unsigned thread) { thread ? read(published, thread * 1000) : write(published); });
  check(snapshot.count() == count_of(kVersions));
  return sanitized::status();
}
