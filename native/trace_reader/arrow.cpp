#include "trace_reader/arrow.hpp"

namespace aiflame::trace_reader {
namespace {

constexpr int64_t kNullable = 2;

void release_schema(ArrowSchema* schema) { schema->release = nullptr; }

void release_array(ArrowArray* array) {
  free(array->private_data);
  array->release = nullptr;
}

}  // namespace

bool export_texts(const Texts& texts, ArrowSchema* schema, ArrowArray* array) noexcept {
  // One piece of memory: the list of buffers, the offsets, which rows are not null, the bytes.
  size_t rows = size_t{texts.count()} + 1, list = 3 * sizeof(void*), offsets = (rows + 1) * sizeof(int64_t), valid = (rows + 63) / 64 * 8;
  auto* memory = static_cast<char*>(malloc(list + offsets + valid + texts.bytes().size + 1));
  if (!memory) return false;
  auto** buffers = reinterpret_cast<const void**>(memory);
  auto* ends = reinterpret_cast<int64_t*>(memory + list);
  char *bits = memory + list + offsets, *bytes = bits + valid;
  ends[0] = ends[1] = 0;
  if (rows > 1) memcpy(ends + 2, texts.ends(), (rows - 1) * sizeof(int64_t));
  memset(bits, 0xff, valid);
  bits[0] = static_cast<char>(0xfe);
  if (texts.bytes().size) memcpy(bytes, texts.bytes().data, texts.bytes().size);
  buffers[0] = bits;
  buffers[1] = ends;
  buffers[2] = bytes;
  *schema = {.format = "U", .name = "", .flags = kNullable, .release = release_schema};
  *array = {
      .length = static_cast<int64_t>(rows), .null_count = 1, .n_buffers = 3, .buffers = buffers, .release = release_array, .private_data = memory};
  return true;
}

}  // namespace aiflame::trace_reader
