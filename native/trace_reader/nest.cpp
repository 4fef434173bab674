#include "trace_reader/nest.hpp"
#include "trace_reader/array.hpp"

namespace aiflame::trace_reader {
namespace {

// The pieces that were made, and the place up to which a thread's time is accounted for.
struct Pieces {
  int64_t *row, *begin, *end;
  int64_t count = 0, time = 0;

  // `of` is the innermost from the time that is accounted for to `to`.
  void add(int64_t of, int64_t to, bool continues) noexcept {
    if (to <= time) return;
    if (continues && count && row[count - 1] == of && end[count - 1] == time) {
      end[count - 1] = to;
    } else {
      row[count] = of;
      begin[count] = time;
      end[count++] = to;
    }
    time = to;
  }
};

}  // namespace

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

int64_t nest(const Spans& spans, int64_t* parent, int64_t* cut_end) noexcept {
  Array<int64_t> open;
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
    if (!open.push(at)) return -1;
  }
  return cut;
}

int64_t segments(const Spans& spans, int64_t* row, int64_t* begin, int64_t* end) noexcept {
  Array<int64_t> open;
  Pieces pieces{row, begin, end};
  for (int64_t at = 0; at <= spans.count; at++) {
    bool same = at && at < spans.count && spans.thread[at] == spans.thread[at - 1];
    // All that ends before this span begins; of another thread, all.
    while (open.size()) {
      int64_t top = open[open.size() - 1];
      if (same && spans.end[top] > spans.begin[at]) break;
      pieces.add(top, spans.end[top], true);
      open.resize(open.size() - 1);
    }
    if (at == spans.count) break;
    if (open.size()) pieces.add(open[open.size() - 1], spans.begin[at], true);
    pieces.time = spans.begin[at];
    if (!open.push(at)) return -1;
  }
  return pieces.count;
}

}  // namespace aiflame::trace_reader
