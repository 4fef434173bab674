#include "unwind/python_self_test.hpp"

#include "base/sys.hpp"
#include "unwind/python_chain.hpp"
#include "unwind/python_codes.hpp"

#include <cstring>

namespace aiflame::python {

namespace {

constexpr size_t kMostFrames = 1024;
constexpr size_t kLongestText = 64 * 1024;

struct Ours : Loads {
  size_t count;
  RawFrame frames[kMostFrames];
  char text[kLongestText];

  Take frame(const RawFrame& frame) noexcept {
    frames[count++] = frame;
    return count < kMostFrames ? Take::MORE : Take::ENOUGH;
  }
  void close(uint64_t) noexcept {}
  void reset() noexcept { count = 0; }
};

// An owned reference.
class Held {
 public:
  Held(const Api& api, Api::Object object) noexcept : api_(api), object_(object) {}
  ~Held() {
    if (object_) api_.release(object_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Api::Object get() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  void replace(Api::Object object) noexcept {
    if (object_) api_.release(object_);
    object_ = object;
  }

 private:
  const Api& api_;
  Api::Object object_;
};

bool same_text(const Api& api, Api::Object code, const char* name, uint16_t offset, Ours* ours) noexcept {
  Held theirs(api, api.attribute(code, name));
  intptr_t length = 0;
  const char* text = theirs ? api.as_utf8(theirs.get(), &length) : nullptr;
  // Texts without UTF-8 (a file name with undecodable bytes) or without an end are not compared.
  if (!text || length >= static_cast<intptr_t>(kLongestText) - 8) {
    api.clear_error();
    return true;
  }
  size_t copied = codes::copy_text(safe_load(reinterpret_cast<uint64_t>(code) + offset), ours->text, kLongestText);
  return copied == static_cast<size_t>(length) && memcmp(ours->text, text, copied) == 0;
}

bool same_line_table(const Api& api, const Layout& layout, Api::Object code, Ours* ours) noexcept {
  Held theirs(api, api.attribute(code, "co_linetable"));
  char* bytes = nullptr;
  intptr_t length = 0;
  if (!theirs || api.as_bytes(theirs.get(), &bytes, &length) != 0) {
    api.clear_error();
    return false;
  }
  size_t copied = codes::copy_bytes(safe_load(reinterpret_cast<uint64_t>(code) + layout.code_linetable), ours->text, kLongestText);
  return (copied == static_cast<size_t>(length) || copied == kLongestText) && memcmp(ours->text, bytes, copied) == 0;
}

long number(const Api& api, Api::Object object, const char* name) noexcept {
  Held value(api, api.attribute(object, name));
  long result = value ? api.as_long(value.get()) : -2;
  api.clear_error();
  return result;
}

bool same_code(const Api& api, const Layout& layout, Api::Object code, Ours* ours) noexcept {
  auto first_line = static_cast<int32_t>(safe_load(reinterpret_cast<uint64_t>(code) + layout.code_first_line));
  return first_line == number(api, code, "co_firstlineno") && same_line_table(api, layout, code, ours) &&
         same_text(api, code, "co_filename", layout.code_filename, ours) &&
         same_text(api, code, layout.version < 0x030b ? "co_name" : "co_qualname", layout.code_qualname, ours);
}

// We read a frame before it has reached its first line; the C API skips it.
bool unborn(const Layout& layout, const RawFrame& frame) noexcept {
  if (!layout.code_first_traceable) return false;
  auto first = static_cast<int32_t>(safe_load(frame.code + layout.code_first_traceable));
  return frame.offset < 2 * static_cast<int64_t>(first);
}

Verdict compare(const Api& api, const Layout& layout, Ours* ours) noexcept {
  Api::Object innermost = api.current_frame();
  if (!innermost) return Verdict::NOTHING_RUNS;
  ChainWalk<Ours>(layout, *ours).run(reinterpret_cast<uint64_t>(api.this_thread()));
  Held held(api, nullptr);
  Api::Object frame = innermost;
  for (size_t index = 0; index < kMostFrames; index++) {
    if (!frame) return index == ours->count ? Verdict::EQUAL : Verdict::DIFFERENT;
    Held code(api, api.frame_code(frame));
    while (index < ours->count && ours->frames[index].code != reinterpret_cast<uint64_t>(code.get()) && unborn(layout, ours->frames[index])) index++;
    if (index >= ours->count) return Verdict::DIFFERENT;
    const RawFrame& read = ours->frames[index];
    long lasti = api.frame_lasti ? api.frame_lasti(frame) : number(api, frame, "f_lasti");
    bool same_place = read.offset == lasti || (read.offset < 0 && lasti < 0);
    if (read.code != reinterpret_cast<uint64_t>(code.get()) || !same_place || !same_code(api, layout, code.get(), ours)) return Verdict::DIFFERENT;
    held.replace(api.frame_back(frame));
    frame = held.get();
  }
  return Verdict::EQUAL;
}

}  // namespace

Verdict self_test(const Api& api, const Layout& layout) noexcept {
  auto* ours = static_cast<Ours*>(sys::map_memory(sizeof(Ours)));
  if (!ours) return Verdict::NOTHING_RUNS;
  Verdict verdict = compare(api, layout, ours);
  sys::unmap_memory(ours, sizeof(Ours));
  return verdict;
}

}  // namespace aiflame::python
