// ITT's tasks, and the values that a program attaches to them.
#include "hooks/regions/itt_internal.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace aiflame::itt {

namespace {

using schema::RegionApi;
using schema::RegionKind;

// A time stamp counts the client's own clock: we use the time of the call instead.
struct Clock;

void task_begin(const Domain* domain, Id id, Id, StringHandle* name) noexcept {
  if (is_off(domain)) return;
  regions::push(spec_of(domain, text_of(name), RegionKind::NESTED), key_of(domain, id));
}
void task_begin_ex(const Domain* domain, Clock*, Timestamp, Id id, Id parent, StringHandle* name) noexcept { task_begin(domain, id, parent, name); }
void task_begin_fn(const Domain* domain, Id id, Id, void*) noexcept {
  if (is_off(domain)) return;
  regions::push(spec_of(domain, "[function]", RegionKind::NESTED), key_of(domain, id));
}
void task_begin_fn_ex(const Domain* domain, Clock*, Timestamp, Id id, Id parent, void* function) noexcept {
  task_begin_fn(domain, id, parent, function);
}
void task_end(const Domain* domain) noexcept {
  if (!is_off(domain)) regions::pop(RegionApi::ITT, name_of(domain));
}
void task_end_ex(const Domain* domain, Clock*, Timestamp) noexcept { task_end(domain); }

void overlapped_begin(const Domain* domain, Id id, Id, StringHandle* name) noexcept {
  if (!is_off(domain)) begin_keyed(spec_of(domain, text_of(name), RegionKind::FREE), key_of(domain, id));
}
void overlapped_begin_ex(const Domain* domain, Clock*, Timestamp, Id id, Id parent, StringHandle* name) noexcept {
  overlapped_begin(domain, id, parent, name);
}
void overlapped_end(const Domain* domain, Id id) noexcept { end_keyed(key_of(domain, id)); }
void overlapped_end_ex(const Domain* domain, Clock*, Timestamp, Id id) noexcept { overlapped_end(domain, id); }

// Without an id, of the task that the thread is in; with one, of that task or region.
uint32_t row_of(const Domain* domain, const Id& id) noexcept {
  uint64_t key = key_of(domain, id);
  uint32_t keyed = key ? row_keyed(key) : 0;
  return keyed ? keyed : regions::innermost(RegionApi::ITT, name_of(domain), key);
}

// Numbers as JSON, one alone or a list of the first few.
class Json {
 public:
  void number(MetadataType type, const void* data, size_t index) noexcept {
    switch (type) {
      case U64:
        return put(read<unsigned long long>(data, index));
      case S64:
        return put(read<long long>(data, index));
      case U32:
        return put(read<unsigned>(data, index));
      case S32:
        return put(read<int>(data, index));
      case U16:
        return put(read<unsigned short>(data, index));
      case S16:
        return put(read<short>(data, index));
      case FLOAT:
        return put(static_cast<double>(read<float>(data, index)), 6, kEnoughForFloat);
      case DOUBLE:
        return put(read<double>(data, index), 15, 17);
      default:
        return text("null");
    }
  }
  void text(std::string_view what) noexcept {
    size_t length = what.size() < room() ? what.size() : room();
    memcpy(end_, what.data(), length);
    end_ += length;
  }
  std::string_view view() const noexcept { return {bytes_, static_cast<size_t>(end_ - bytes_)}; }

 private:
  template <class Number>
  static Number read(const void* data, size_t index) noexcept {
    Number number;
    memcpy(&number, static_cast<const char*>(data) + index * sizeof number, sizeof number);
    return number;
  }
  template <class Number>
  void put(Number number) noexcept {
    auto written = std::to_chars(end_, bytes_ + sizeof bytes_, number);
    if (written.ec == std::errc()) end_ = written.ptr;
  }
  // As few digits as lead back to the same number. A locale may write its point as something else.
  void put(double number, int few, int enough) noexcept {
    if (!std::isfinite(number)) return text("null");
    char digits[40];
    snprintf(digits, sizeof digits, "%.*g", few, number);
    bool same = enough == kEnoughForFloat ? strtof(digits, nullptr) == static_cast<float>(number) : strtod(digits, nullptr) == number;
    if (!same) snprintf(digits, sizeof digits, "%.*g", enough, number);
    for (char& digit : digits) {
      if (digit == 0) break;
      if (!strchr("0123456789+-e", digit)) digit = '.';
    }
    text(digits);
  }
  size_t room() const noexcept { return static_cast<size_t>(bytes_ + sizeof bytes_ - end_); }

  static constexpr int kEnoughForFloat = 9;
  char bytes_[512];
  char* end_ = bytes_;
};

void metadata_add(const Domain* domain, Id id, StringHandle* key, MetadataType type, size_t count, void* data) noexcept {
  constexpr size_t kMost = 16;
  if (!data || !count || is_off(domain)) return;
  Json json;
  if (count > 1) json.text("[");
  for (size_t index = 0; index < count && index < kMost; index++) {
    if (index) json.text(", ");
    json.number(type, data, index);
  }
  if (count > kMost) json.text(", \"…\"");
  if (count > 1) json.text("]");
  regions::tell(row_of(domain, id), text_of(key), json.view());
}

void metadata_str_add(const Domain* domain, Id id, StringHandle* key, const char* data, size_t length) noexcept {
  if (!data || is_off(domain)) return;
  regions::tell(row_of(domain, id), text_of(key), {data, length ? strnlen(data, length) : strlen(data)});
}

void metadata_add_with_scope(const Domain* domain, Scope, StringHandle* key, MetadataType type, size_t count, void* data) noexcept {
  metadata_add(domain, {}, key, type, count, data);
}
void metadata_str_add_with_scope(const Domain* domain, Scope, StringHandle* key, const char* data, size_t length) noexcept {
  metadata_str_add(domain, {}, key, data, length);
}

}  // namespace

void each_of_tasks(void* context, Visit visit) noexcept {
  visit(context, entry("__itt_task_begin", task_begin));
  visit(context, entry("__itt_task_begin_ex", task_begin_ex));
  visit(context, entry("__itt_task_begin_fn", task_begin_fn));
  visit(context, entry("__itt_task_begin_fn_ex", task_begin_fn_ex));
  visit(context, entry("__itt_task_end", task_end));
  visit(context, entry("__itt_task_end_ex", task_end_ex));
  visit(context, entry("__itt_task_begin_overlapped", overlapped_begin));
  visit(context, entry("__itt_task_begin_overlapped_ex", overlapped_begin_ex));
  visit(context, entry("__itt_task_end_overlapped", overlapped_end));
  visit(context, entry("__itt_task_end_overlapped_ex", overlapped_end_ex));
  visit(context, entry("__itt_metadata_add", metadata_add));
  visit(context, entry("__itt_metadata_str_add", metadata_str_add));
  visit(context, entry("__itt_metadata_add_with_scope", metadata_add_with_scope));
  visit(context, entry("__itt_metadata_str_add_with_scope", metadata_str_add_with_scope));
}

}  // namespace aiflame::itt
