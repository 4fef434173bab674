#include "hooks/cuda/counters_metrics.hpp"

#include "base/large.hpp"
#include "hooks/cuda/counters_host.hpp"
#include "spool/spool.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace aiflame::cuda::counters {

namespace {

// In order of use. Of two rows with the same name, the second is for chips that do not know the first.
//
// All are sums, so that values of adjacent samples add up; `avg` is over the multiprocessors. The tensor pipe counts in each of the four
// parts of a multiprocessor. Its usual counter takes five times as long to decode as the one of the realtime group (docs/internals/gpu-samples.md).
constexpr Metric kWanted[] = {
    {"dram-read-bytes", "dram__bytes_read.sum", 1},
    {"dram-write-bytes", "dram__bytes_write.sum", 1},
    {"sm-cycles", "sm__cycles_elapsed.avg", 1},
    {"sm-active-cycles", "sm__cycles_active.avg", 1},
    {"tensor-cycles", "TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime.avg", 4},
    {"tensor-cycles", "sm__pipe_tensor_cycles_active.avg", 4},
    {"warp-cycles", "sm__warps_active.avg", 1},
    {"l2-bytes", "lts__t_bytes.sum", 1},
    {"pcie-read-bytes", "pcie__read_bytes.sum", 1},
    {"pcie-write-bytes", "pcie__write_bytes.sum", 1},
    {"nvlink-read-bytes", "nvlrx__bytes.sum", 1},
    {"nvlink-write-bytes", "nvltx__bytes.sum", 1},
};

bool has(const Metrics& metrics, const char* name) noexcept {
  for (uint32_t at = 0; at < metrics.count; at++)
    if (!strcmp(metrics.list[at].name, name)) return true;
  return false;
}

// How often work would have to run for all of these to be counted, 0: the chip does not know one.
size_t passes(Host& host, const Metrics& metrics, Image* configuration) noexcept {
  const char* names[kMostMetrics];
  for (uint32_t at = 0; at < metrics.count; at++) names[at] = metrics.list[at].vendor;
  return host.passes(names, metrics.count, configuration);
}

enum class Try : uint8_t { ADDED, UNKNOWN, TOO_MANY };

Try add(const char* chip, const Image& availability, Metrics& metrics, const Metric& metric) noexcept {
  if (metrics.count == kMostMetrics) return Try::TOO_MANY;
  metrics.list[metrics.count++] = metric;
  Host host;
  size_t needed = host.open(chip, availability) == CUPTI_SUCCESS ? passes(host, metrics, nullptr) : 0;
  host.close();
  if (needed == 1) return Try::ADDED;
  metrics.count--;
  return needed ? Try::TOO_MANY : Try::UNKNOWN;
}

void tell_left_out(const char* name, Try why) noexcept {
  char text[300];
  snprintf(text, sizeof text,
           why == Try::UNKNOWN ? "the GPU counter %.150s is left out: this GPU does not know it"
                               : "the GPU counter %.150s is left out: this GPU cannot count it together with the ones before it",
           name);
  spool::note(text);
}

// The user's own, separated by commas: sums of counters, by the vendor's names.
void add_users(const char* chip, const Image& availability, const char* list, Metrics& metrics) noexcept {
  AIFLAME_LARGE static char names[4096];
  snprintf(names, sizeof names, "%s", list);
  for (char *rest = names, *name; (name = strsep(&rest, ","));)
    if (*name && !has(metrics, name))
      if (Try why = add(chip, availability, metrics, {name, name, 1}); why != Try::ADDED) tell_left_out(name, why);
}

}  // namespace

bool choose(const char* chip, const Image& availability, Metrics& chosen, Image& configuration, Host& host) noexcept {
  chosen.count = 0;
  if (const char* list = getenv("AIFLAME_GPU_COUNTERS"); list && *list)
    add_users(chip, availability, list, chosen);
  else
    for (const Metric& metric : kWanted)
      if (!has(chosen, metric.name)) add(chip, availability, chosen, metric);
  if (chosen.count && host.open(chip, availability) == CUPTI_SUCCESS && passes(host, chosen, &configuration) == 1) return true;
  spool::note("GPU counters are not recorded: CUPTI knows none of those that are wanted on this GPU");
  return false;
}

}  // namespace aiflame::cuda::counters
