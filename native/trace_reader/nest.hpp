// Spans of threads: which lies in which.
//
// Spans are half open and in order of (thread, begin, -end). A span that ends before it begins counts as empty.
#pragma once
#include <cstdint>

namespace aiflame::trace_reader {

struct Spans {
  const uint32_t* thread;
  const int64_t *begin, *end;
  int64_t count;  // below 1 << 31

  bool in_order() const noexcept;
};

// `parent`: the row of the innermost span that encloses each, or -1. A span that begins inside another and ends after it becomes its child and
// is cut: `cut_end` has the end of each span as it then is, within its parent. Returns the number of spans that were cut; -1: no memory.
int64_t nest(const Spans& spans, int32_t* parent, int64_t* cut_end) noexcept;

}  // namespace aiflame::trace_reader
