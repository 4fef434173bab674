// Spans of threads: which lies in which, and the time that each has for itself.
//
// Spans are half open and in order of (thread, begin, -end). A span that ends before it begins counts as empty.
#pragma once
#include <cstdint>

namespace aiflame::trace_reader {

struct Spans {
  const int64_t *thread, *begin, *end;
  int64_t count;

  bool in_order() const noexcept;
};

// `parent`: the row of the innermost span that encloses each, or -1. A span that begins inside another and ends after it becomes its child and
// is cut: `cut_end` has the end of each span as it then is, within its parent. Returns the number of spans that were cut; -1: no memory.
int64_t nest(const Spans& spans, int64_t* parent, int64_t* cut_end) noexcept;

// The pieces of time in which a span is the innermost one that is open, by thread and time: `row`, `begin` and `end` have room for 2 * count.
// Of open spans the one that began last is the innermost, so the pieces cover the same time as the spans, each moment once, whether spans overlap
// or not. Returns the number of pieces; -1: no memory.
int64_t segments(const Spans& spans, int64_t* row, int64_t* begin, int64_t* end) noexcept;

}  // namespace aiflame::trace_reader
