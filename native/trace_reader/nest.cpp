#include "trace_reader/nest.hpp"
#include "trace_reader/array.hpp"

namespace aiflame::trace_reader {

bool Spans::in_order() const noexcept {
  for (int64_t at = 1; at < count; at++) {
    if (thread[at - 1] != thread[at]) {
      if (thread[at - 1] > thread[at]) return false;
    } else if (begin[at - 1] > begin[at] || (begin[at - 1] == begin[at] && end[at - 1] < end[at])) {
      return false;
    }
  }
  return true;
}

int64_t nest(const Spans& spans, int32_t* parent, int64_t* cut_end) noexcept {
  Array<int32_t> open;
  int64_t cut = 0;
  for (int64_t at = 0; at < spans.count; at++) {
    if (at && spans.thread[at] != spans.thread[at - 1]) open.clear();
    int64_t begin = spans.begin[at], end = spans.end[at] < begin ? begin : spans.end[at];
    while (open.size() && cut_end[open[open.size() - 1]] <= begin) open.resize(open.size() - 1);
    parent[at] = open.size() ? open[open.size() - 1] : -1;
    if (parent[at] >= 0 && end > cut_end[parent[at]]) {
      end = cut_end[parent[at]];
      cut++;
    }
    cut_end[at] = end;
    if (!open.push(static_cast<int32_t>(at))) return -1;
  }
  return cut;
}

}  // namespace aiflame::trace_reader
