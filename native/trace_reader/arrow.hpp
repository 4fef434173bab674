// Texts as an array of large strings in Arrow's C data interface (https://arrow.apache.org/docs/format/CDataInterface.html).
#pragma once
#include "trace_reader/texts.hpp"

extern "C" {

struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  ArrowSchema **children, *dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray **children, *dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
}

namespace aiflame::trace_reader {

// Row n is the text with the number n, row 0 is null. The array owns copies of all it has. False: no memory.
bool export_texts(const Texts& texts, ArrowSchema* schema, ArrowArray* array) noexcept;

}  // namespace aiflame::trace_reader
