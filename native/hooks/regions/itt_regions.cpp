// ITT's regions, frames, marks and events; pausing.
#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "hooks/regions/interned_texts.hpp"
#include "hooks/regions/itt_internal.hpp"
#include "sampler/threads.hpp"
#include "spool/spool.hpp"

#include <atomic>
#include <cstring>

namespace aiflame::itt {

namespace {

using schema::RegionApi;
using schema::RegionKind;

void region_begin(const Domain* domain, Id id, Id, StringHandle* name) noexcept {
  if (!is_off(domain)) begin_keyed(spec_of(domain, text_of(name), RegionKind::FREE), key_of(domain, id));
}
void region_end(const Domain* domain, Id id) noexcept { end_keyed(key_of(domain, id)); }

// Frames have no name of their own. Without an id, a domain has one at a time.
uint64_t frame_key(const Domain* domain, const Id* id) noexcept {
  return key_of(reinterpret_cast<uint64_t>(domain) + 1, id ? id->d1 : 0, id ? id->d2 : 0, id ? id->d3 : 0);
}
regions::Spec frame_spec(const Domain* domain) noexcept { return spec_of(domain, name_of(domain), RegionKind::FRAME); }

void frame_begin_v3(const Domain* domain, Id* id) noexcept {
  if (!is_off(domain)) begin_keyed(frame_spec(domain), frame_key(domain, id));
}
void frame_end_v3(const Domain* domain, Id* id) noexcept { end_keyed(frame_key(domain, id)); }
void frame_submit_v3(const Domain* domain, Id*, Timestamp begin, Timestamp end) noexcept {
  if (is_off(domain)) return;
  uint64_t now = now_ns();
  if (end == kNow) end = now;
  if (begin == kNow) begin = now;
  if (begin > end || end > now)
    return spool::note("ITT: a frame was submitted whose times come from another clock than ours: such frames are passed over");
  regions::submit(frame_spec(domain), begin, end);
}
Timestamp get_timestamp() noexcept { return now_ns(); }

void marker(const Domain* domain, Id, StringHandle* name, Scope) noexcept {
  if (!is_off(domain)) regions::begin(spec_of(domain, text_of(name), RegionKind::MARK));
}
void marker_ex(const Domain* domain, void*, Timestamp, Id id, StringHandle* name, Scope scope) noexcept { marker(domain, id, name, scope); }

// Kinds of marks and of events: a client gives them a name once, and gets a number.
class Names {
 public:
  int add(std::string_view name) noexcept {
    for (int at = 0; at < kMost; at++) {
      const char* there = names_[at].load(std::memory_order_acquire);
      if (there && name == there) return at + 1;
      if (there) continue;
      std::string_view ours = interned::copy(name);
      if (!ours.data()) return 0;
      if (names_[at].compare_exchange_strong(there, ours.data(), std::memory_order_acq_rel) || name == there) return at + 1;
    }
    return 0;
  }
  std::string_view at(int number) const noexcept {
    return number > 0 && number <= kMost ? view(names_[number - 1].load(std::memory_order_acquire)) : std::string_view();
  }

 private:
  static constexpr int kMost = 1024;
  std::atomic<const char*> names_[kMost];
};
AIFLAME_LARGE constinit Names marks{}, events{};

int mark_create(const char* name) noexcept { return marks.add(view(name)); }
int mark(int type, const char* parameter) noexcept {
  uint32_t row = regions::begin(spec_of(nullptr, marks.at(type), RegionKind::MARK));
  if (parameter && *parameter) regions::tell(row, "parameter", parameter);
  return 0;
}

// An event belongs to the thread that starts it; several may be going on, in any order.
int event_create(const char* name, int length) noexcept {
  return name ? events.add({name, length > 0 ? strnlen(name, static_cast<size_t>(length)) : strlen(name)}) : 0;
}
int event_start(int event) noexcept {
  if (event > 0) regions::push(spec_of(nullptr, events.at(event), RegionKind::NESTED), static_cast<regions::Tag>(event));
  return 0;
}
int event_end(int event) noexcept {
  if (event > 0) regions::pop(RegionApi::ITT, {}, static_cast<regions::Tag>(event));
  return 0;
}

// Work elsewhere, on a GPU for one, is recorded meanwhile: it lies in a frame named for the pause.
constexpr uint64_t kPausedKey = 1;
std::atomic<bool> paused{false};

void pause() noexcept {
  if (paused.exchange(true)) return;
  threads::pause_all();
  begin_keyed(spec_of(nullptr, "[paused]", RegionKind::FRAME), kPausedKey);
}
void resume() noexcept {
  if (!paused.exchange(false)) return;
  end_keyed(kPausedKey);
  threads::resume_all();
}
void pause_scoped(int) noexcept { pause(); }
void resume_scoped(int) noexcept { resume(); }

}  // namespace

void each_of_regions(void* context, Visit visit) noexcept {
  visit(context, entry("__itt_region_begin", region_begin));
  visit(context, entry("__itt_region_end", region_end));
  visit(context, entry("__itt_frame_begin_v3", frame_begin_v3));
  visit(context, entry("__itt_frame_end_v3", frame_end_v3));
  visit(context, entry("__itt_frame_submit_v3", frame_submit_v3));
  visit(context, entry("__itt_get_timestamp", get_timestamp));
  visit(context, entry("__itt_marker", marker));
  visit(context, entry("__itt_marker_ex", marker_ex));
  visit(context, entry("__itt_mark_create", mark_create));
  visit(context, entry("__itt_mark", mark));
  visit(context, entry("__itt_mark_global", mark));
  visit(context, entry("__itt_event_create", event_create));
  visit(context, entry("__itt_event_start", event_start));
  visit(context, entry("__itt_event_end", event_end));
  visit(context, entry("__itt_pause", pause));
  visit(context, entry("__itt_resume", resume));
  visit(context, entry("__itt_pause_scoped", pause_scoped));
  visit(context, entry("__itt_resume_scoped", resume_scoped));
}

}  // namespace aiflame::itt
