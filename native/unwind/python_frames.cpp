#include "unwind/python_frames.hpp"

#include "spool/spool.hpp"
#include "unwind/generation.hpp"
#include "unwind/python_chain.hpp"
#include "unwind/python_codes.hpp"
#include "unwind/python_layers.hpp"
#include "unwind/python_self_test.hpp"

#include <pthread.h>
#include <atomic>
#include <bit>

// Read by the recorder from outside (recorder/looks), once the magic is there.
struct Published {
  aiflame::schema::Interpreter interpreter;
  aiflame::schema::PythonLayout layout;
};
extern "C" __attribute__((visibility("default"))) constinit Published aiflame_interpreter{};

namespace aiflame::python {

namespace {

enum class Status : uint8_t { NOT_FOUND, ATTACHED, VERIFIED, REFUSED };

Api api;
Layout layout;
std::atomic<Status> status{Status::NOT_FOUND};
std::atomic<bool> looking{false}, test_pending{false};
// The reason why reading is off. A walk records it, since there are no tables yet when attach() runs.
std::atomic<const char*> untold{nullptr};
int (*on_main_thread)(const Api&) noexcept = nullptr;

// The state to read the calling thread's frames from.
uint64_t thread_state() noexcept {
  // Up to 3.11 the specific key holds the first state that the thread ever had: inside a sub-interpreter, not the one that runs.
  if (api.gil_holder) {
    auto holder = reinterpret_cast<uint64_t>(api.gil_holder());
    if (holder && safe_load(holder + layout.thread_id) == pthread_self()) return holder;
  }
  return reinterpret_cast<uint64_t>(api.this_thread());
}

// No instruction of any function is elsewhere; up to 3.12 a frame that has not begun is one code unit before its first.
bool is_place(int64_t offset) noexcept { return offset >= -2 && offset < 1 << 30; }

// 3.10 keeps cells behind the locals: co_cell2arg says which argument each took over.
uint64_t cell_of_first_argument(const RawFrame& frame) noexcept {
  constexpr uint64_t kLocals = 28, kCellNames = 88, kCellToArgument = 96;  // co_nlocals, co_cellvars, co_cell2arg
  uint64_t taken = safe_load(frame.code + kCellToArgument), count = safe_load(safe_load(frame.code + kCellNames) + layout.object_size);
  for (uint64_t cell = 0; taken && cell < count && cell < 64; cell++) {
    if (safe_load(taken + 8 * cell, ~0ull) != 0) continue;
    uint64_t local = (safe_load(frame.code + kLocals) & 0xFFFFFFFFu) + cell;
    return safe_load(frame.address + layout.frame_locals + 8 * local);
  }
  return 0;
}

// Address of the object that is the first argument (`self`) of a frame, 0 when unknown. An argument that an inner function uses lives in
// a cell. The caller stores it before the frame is linked into the chain.
uint64_t first_argument(const RawFrame& frame) noexcept {
  uint64_t object = safe_load(frame.address + layout.frame_locals) & layout.pointer_mask;
  if (!object && chain_of(layout) == Chain::FRAME_OBJECTS) object = cell_of_first_argument(frame);
  if (is_address(object) && safe_load(object + layout.object_type) == api.cell_type) object = safe_load(object + layout.cell_content);
  return object;
}

// The meaning of a frame; `word` is 0 when there is no such frame.
struct Meaning {
  FrameWord word;
  bool layer_call;
};

class Meanings {
 public:
  explicit Meanings(PlacesMet* met) noexcept : met_(met), era_(met ? codes::era() : 0) {}

  Meaning of(const RawFrame& raw) noexcept {
    if (!era_) [[unlikely]]
      return look_up(raw, nullptr);
    PlacesMet::Place& place = met_->at[(static_cast<uint64_t>(raw.offset) + (raw.code >> 4)) * 0x9E3779B97F4A7C15u >> (64 - PlacesMet::kBits)];
    if (place.code != which(raw.code) || place.offset != raw.offset || place.era != era_) return look_up(raw, &place);
    return {place.word, place.layer_call != 0};
  }

 private:
  static uint64_t which(uint64_t code) noexcept { return code ^ std::rotl(safe_load(code + layout.code_linetable), 16); }

  __attribute__((noinline)) Meaning look_up(const RawFrame& raw, PlacesMet::Place* place) noexcept {
    uint32_t answer = codes::look_up(raw.code), id = answer & (codes::kLayerCall - 1);
    if (!id || !is_place(raw.offset)) return {};
    Meaning found{frame_word(schema::FrameKind::PYTHON, id, static_cast<uint32_t>(raw.offset < 0 ? 0 : raw.offset + 1)), answer != id};
    if (place) {
      place->era = 0;  // a jump out of here leaves no half-written place
      std::atomic_signal_fence(std::memory_order_seq_cst);
      *place = {.code = which(raw.code), .era = 0, .word = found.word, .offset = static_cast<int32_t>(raw.offset), .layer_call = found.layer_call};
      std::atomic_signal_fence(std::memory_order_seq_cst);
      place->era = era_;
    }
    return found;
  }

  PlacesMet* met_;
  uint64_t era_;  // 0: nothing is remembered
};

class Frames : public Loads {
 public:
  Frames(PythonFrame* out, size_t room, PlacesMet* met) noexcept : meanings_(met), out_(out), room_(room) {}

  Take frame(const RawFrame& raw) noexcept {
    Meaning meaning = meanings_.of(raw);
    if (!meaning.word) return Take::STALE;
    if (meaning.layer_call) layer(raw);
    out_[count_++] = {.word = meaning.word, .evaluator = 0, .entry = false};
    return count_ < room_ ? Take::MORE : Take::ENOUGH;
  }

  void close(uint64_t evaluator) noexcept {
    if (group_ == count_) return;
    out_[count_ - 1].entry = true;
    for (; group_ < count_; group_++) out_[group_].evaluator = evaluator;
  }

  void reset() noexcept { count_ = group_ = 0; }

  size_t count() const noexcept { return count_; }

 private:
  // Work inside a module's call belongs to the module: its word comes just inside of the calling frame.
  void layer(const RawFrame& call) noexcept {
    uint32_t row = count_ + 1 < room_ ? layers::row_of(first_argument(call)) : 0;
    if (row) out_[count_++] = {.word = frame_word(schema::FrameKind::LAYER, 0, row), .evaluator = 0, .entry = false};
  }

  Meanings meanings_;
  PythonFrame* out_;
  size_t room_, count_ = 0, group_ = 0;
};

// Outwards until the first call of a module.
class InnermostLayer : public Loads {
 public:
  explicit InnermostLayer(PlacesMet* met) noexcept : meanings_(met) {}

  Take frame(const RawFrame& raw) noexcept {
    Meaning meaning = meanings_.of(raw);
    if (!meaning.word) return Take::STALE;
    if (meaning.layer_call) row_ = layers::row_of(first_argument(raw));
    return row_ || ++count_ == kMost ? Take::ENOUGH : Take::MORE;
  }
  void close(uint64_t) noexcept {}
  void reset() noexcept { row_ = count_ = 0; }

  uint32_t row() const noexcept { return row_; }

 private:
  static constexpr uint32_t kMost = 64;  // it is usually near
  Meanings meanings_;
  uint32_t row_ = 0, count_ = 0;
};

// The kind of a read that is not a word: a byte / the first argument of the frame at this address.
constexpr uint64_t kByte = 1ull << 63, kArgument = 1ull << 62, kAddress = kArgument - 1;

uint64_t read_again(uint64_t address) noexcept {
  if (address < kArgument) [[likely]]
    return safe_load(address, ~0ull);
  uint64_t at = address & kAddress;
  return address & kByte ? safe_load(at) & 0xFF : first_argument({.address = at, .code = safe_load(at + layout.frame_code), .offset = 0});
}

// Records the words that Frames reads. A code object's own words are not included: they do not change while it lives, and generation::current() shows
// when it is freed. Until then, an instruction belongs to one code object, and a frame at an instruction is no shim.
class Reader {
 public:
  Reader(Read* out, size_t room, PlacesMet* met) noexcept : meanings_(met), out_(out), room_(room) {}

  uint64_t load(uint64_t address) noexcept { return keep(address, safe_load(address)); }
  uint64_t load_byte(uint64_t address) noexcept { return keep(address | kByte, safe_load(address) & 0xFF); }
  static uint64_t load_code(uint64_t address) noexcept { return safe_load(address); }
  uint64_t load_owner(uint64_t address) noexcept {
    uint64_t owner = safe_load(address) & 0xFF;
    return owner >= layout.shim_owner ? keep(address | kByte, owner) : owner;
  }

  Take frame(const RawFrame& raw) noexcept {
    Meaning meaning = meanings_.of(raw);
    if (!meaning.word) {
      room_ = 0;  // we cannot know when such a place becomes a frame
      return Take::STALE;
    }
    if (meaning.layer_call) {
      // The words that lead to it are not included: the cell that may hold it is another at every call.
      uint64_t object = keep(raw.address | kArgument, first_argument(raw));
      if (is_address(object)) load(object + layout.object_type);
      if (Read word = layers::word_of(object); word.address) keep(word.address, word.value);
    }
    return Take::MORE;
  }
  void close(uint64_t) noexcept {}
  // The data that led to a stale frame also led to the place from which the walk continued.
  void reset() noexcept {}

  size_t count() const noexcept { return count_ <= room_ ? count_ : 0; }

 private:
  uint64_t keep(uint64_t address, uint64_t value) noexcept {
    if (count_ < room_) out_[count_] = {address, value};
    if (count_ <= room_) count_++;
    return value;
  }

  Meanings meanings_;
  Read* out_;
  size_t room_, count_ = 0;
};

void publish() noexcept {
  schema::Interpreter& out = aiflame_interpreter.interpreter;
  out.runtime = reinterpret_cast<uint64_t>(api.runtime);
  out.code_type = api.code_type;
  out.text_type = api.text_type;
  out.bytes_type = api.bytes_type;
  aiflame_interpreter.layout = layout;
  if (api.runtime) std::atomic_ref(out.magic).store(schema::kInterpreterMagic, std::memory_order_release);
}

void refuse(const char* reason) noexcept {
  std::atomic_ref(aiflame_interpreter.interpreter.magic).store(0, std::memory_order_relaxed);
  untold.store(reason, std::memory_order_release);
  status.store(Status::REFUSED, std::memory_order_release);
  generation::end();
}

void tell() noexcept {
  if (untold.load(std::memory_order_relaxed) == nullptr) return;
  if (const char* reason = untold.exchange(nullptr, std::memory_order_acq_rel)) spool::note(reason);
}

int on_pending_call(void*) noexcept {
  if (on_main_thread) return on_main_thread(api);
  test_self();
  return 0;
}

// The interpreter is complete. A recording may begin in a thread that it does not know.
bool takes_calls() noexcept { return api.this_thread() || (api.is_initialized && api.is_initialized()); }

void look_for_interpreter() noexcept {
  if (!find_api(&api)) return;
  const char* reason = nullptr;
  if (!layout_of(api.version, api.runtime, &layout, &reason)) {
    refuse(reason);
    return;
  }
  layers::use(layout);
  codes::use(layout, {.code = api.code_type, .text = api.text_type, .bytes = api.bytes_type});
  codes::count_freed(api.type_slot);
  publish();
  status.store(Status::ATTACHED, std::memory_order_release);
  generation::end();
}

}  // namespace

// Frames are recorded before the self-test has run: a short program may end before its interpreter runs a pending call. The harm of a wrong layout
// is limited: no load can fault, and only objects with the type of code objects count as frames.
void attach() noexcept {
  if (status.load(std::memory_order_acquire) == Status::NOT_FOUND && !looking.exchange(true, std::memory_order_acq_rel)) {
    look_for_interpreter();
    looking.store(false, std::memory_order_release);
  }
  schedule_self_test();
}

// Py_AddPendingCall() waits for a lock that make_pending_calls() and other adders hold for a moment (3.10 to 3.12: a semaphore; from
// 3.13 a mutex whose slow path may give up the GIL). A tick that interrupted such a holder would wait for ever; CPython's own
// signalmodule.c says that it "isn't signal-safe". So the test is registered where the program called us, or where a recording began. A caller
// with a thread state proves that the main one is there too, which 3.13 and later take for granted; so does a complete interpreter.
void schedule_self_test() noexcept {
  if (status.load(std::memory_order_acquire) != Status::ATTACHED || !takes_calls()) return;
  if (test_pending.exchange(true, std::memory_order_acq_rel)) return;
  if (api.add_pending_call(on_pending_call, nullptr) != 0) test_pending.store(false, std::memory_order_release);
}

void test_on_main_thread(int (*call)(const Api&) noexcept) noexcept { on_main_thread = call; }

bool test_self() noexcept {
  Verdict verdict = self_test(api, layout);
  if (verdict == Verdict::EQUAL) {
    status.store(Status::VERIFIED, std::memory_order_release);
  } else if (verdict == Verdict::DIFFERENT) {
    refuse("Python frames are not read: what was read from the interpreter's memory differs from what its C API says");
  }
  test_pending.store(false, std::memory_order_release);
  return verdict != Verdict::NOTHING_RUNS;
}

bool call_soon(int (*function)(void*)) noexcept {
  if (status.load(std::memory_order_acquire) == Status::NOT_FOUND) return false;
  return takes_calls() && api.add_pending_call(function, nullptr) == 0;
}

bool attached() noexcept {
  Status now = status.load(std::memory_order_acquire);
  return now == Status::ATTACHED || now == Status::VERIFIED;
}

bool verified() noexcept { return status.load(std::memory_order_acquire) == Status::VERIFIED; }
bool refused() noexcept { return status.load(std::memory_order_acquire) == Status::REFUSED; }
uint32_t version() noexcept { return attached() ? layout.version : 0; }

uint64_t walked_from() noexcept {
  uint64_t thread = attached() ? thread_state() : 0;
  return is_address(thread) ? thread : 0;
}

size_t walk(PythonFrame* out, size_t room, PlacesMet* met) noexcept {
  if (!attached() || room == 0) {
    tell();
    return 0;
  }
  Frames frames(out, room, met);
  if (uint64_t thread = walked_from()) ChainWalk<Frames>(layout, frames).run(thread);
  return frames.count();
}

uint64_t variable_of(uint64_t frame, uint64_t place) noexcept {
  constexpr uint64_t kInterpreterFrame = 24;  // PyFrameObject: f_frame, from 3.11 to 3.14
  if (!verified() || layout.object_type != 8) return 0;
  uint64_t at = chain_of(layout) == Chain::FRAME_OBJECTS ? frame : safe_load(frame + kInterpreterFrame);
  uint64_t object = at ? safe_load(at + layout.frame_locals + 8 * place) & layout.pointer_mask : 0;
  return is_address(object) ? object : 0;
}

bool may_be_kept() noexcept { return !attached() || codes::era(); }

size_t reads(Read* out, size_t room, PlacesMet* met) noexcept {
  Reader reader(out, room, met);
  if (uint64_t thread = walked_from()) ChainWalk<Reader>(layout, reader).run(thread);
  return reader.count();
}

bool are_same(const Read* reads, size_t count) noexcept {
  for (size_t at = count; at-- > 0;)
    if (read_again(reads[at].address) != reads[at].value) return false;
  return true;
}

uint32_t innermost_layer(PlacesMet* met) noexcept {
  InnermostLayer layer(met);
  if (uint64_t thread = walked_from()) ChainWalk<InnermostLayer>(layout, layer).run(thread);
  return layer.row();
}

void forget_rows() noexcept {
  codes::forget_rows();
  layers::forget_rows();
  // A child of a fork need not have inherited the pending call.
  test_pending.store(false, std::memory_order_release);
}

}  // namespace aiflame::python
