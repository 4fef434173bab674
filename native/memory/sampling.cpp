#include "memory/sampling.hpp"

#include "memory/collector.hpp"

#include <sys/auxv.h>
#include <unistd.h>
#include <atomic>
#include <bit>
#include <cstring>

namespace aiflame::memory::sampling {

constinit thread_local uint64_t left = 0;

namespace {

// Nothing is recorded yet, or any more: the thread asks again after so many bytes.
constexpr uint64_t kLookAgain = 64 << 10;

constinit thread_local uint64_t state = 0;  // of the random numbers, 0: `left` was not drawn
std::atomic<uint64_t> threads{0};

uint64_t mixed(uint64_t word) noexcept {
  word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9u;
  word = (word ^ word >> 27) * 0x94D049BB133111EBu;
  return word ^ word >> 31;
}

// The kernel gives each program 16 random bytes.
uint64_t seed() noexcept {
  uint64_t random = 0;
  if (auto* bytes = reinterpret_cast<const void*>(getauxval(AT_RANDOM))) memcpy(&random, bytes, sizeof random);
  uint64_t own = threads.fetch_add(1, std::memory_order_relaxed) << 32 | static_cast<uint32_t>(getpid());
  return mixed(random ^ mixed(own)) | 1;
}

// splitmix64
uint64_t random() noexcept { return mixed(state += 0x9E3779B97F4A7C15u); }

// The natural logarithm of a number from 2⁻⁵³ to 1, to nine digits. (libm would be one more library to load.)
double logarithm(double number) noexcept {
  auto bits = std::bit_cast<uint64_t>(number);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xF'FFFF'FFFF'FFFFu) | 0x3FF0'0000'0000'0000u);
  double s = (mantissa - 1) / (mantissa + 1), square = s * s, sum = 0;
  for (int term = 19; term > 0; term -= 2) sum = sum * square + 1.0 / term;
  return exponent * 0.6931471805599453 + 2 * s * sum;
}

// A number of bytes between samples: exponentially distributed, so that each byte is sampled independently of all others. Rounded down, an
// allocation of n bytes is sampled exactly when the number itself is below n.
uint64_t gap(uint64_t mean) noexcept {
  double uniform = static_cast<double>((random() >> 11) + 1) * 0x1p-53;
  return static_cast<uint64_t>(-logarithm(uniform) * static_cast<double>(mean));
}

// 1 - exp(-x) for x from 0 on.
double probability(double x) noexcept {
  if (x > 40) return 1;
  double part = x / 64, sum = 1;
  for (int term = 8; term > 1; term--) sum = 1 - part / term * sum;
  double sampled = part * sum;  // of a 64th: kept apart from 1, since it may be tiny
  for (int doubling = 0; doubling < 6; doubling++) sampled *= 2 - sampled;
  return sampled;
}

}  // namespace

uint64_t weigh(size_t bytes) noexcept {
  uint64_t mean = collector::every();
  if (!mean) {
    left = kLookAgain;
    state = 0;
    return 0;
  }
  if (!state) {
    state = seed();
    left = gap(mean);
    if (passes(bytes)) return 0;
  }
  left = gap(mean);
  double size = static_cast<double>(bytes);
  return static_cast<uint64_t>(size / probability(size / static_cast<double>(mean)) + 0.5);
}

void begin_anew() noexcept { left = state = 0; }

}  // namespace aiflame::memory::sampling
