// The frames of a thread state, one after the other, innermost first.
#pragma once
#include "base/safe_load.hpp"
#include "unwind/python_layout.hpp"

namespace aiflame::python {

struct RawFrame {
  uint64_t address;  // of the interpreter's frame
  uint64_t code;
  int64_t offset;  // of the instruction in bytes; negative before the first
};

inline bool is_address(uint64_t value) noexcept { return value > 4096 && value < 1ull << 47 && value % 8 == 0; }

// A sink's answer to a frame.
enum class Take : uint8_t { MORE, ENOUGH, STALE };

struct Loads {
  static uint64_t load(uint64_t address) noexcept { return safe_load(address); }
  static uint64_t load_byte(uint64_t address) noexcept { return safe_load(address) & 0xFF; }
  static uint64_t load_code(uint64_t address) noexcept { return load(address); }
  static uint64_t load_owner(uint64_t address) noexcept { return load_byte(address); }
};

// An evaluator links frames that it is just entering or leaving by a few stores, whose order the compiler chooses. A walk in between reads stale
// memory: values read here are only used as addresses to load from. Where CFrames show each evaluator's caller (3.11, 3.12), the innermost
// evaluator's frames must lead to it; else the walk begins there.
//
// Sink: Take frame(const RawFrame&)     STALE: there is no such frame
//       void close(uint64_t evaluator)  the frames since the last close() belong to the evaluator with this address on its stack
//       void reset()                    all frames so far were stale
//       uint64_t load(uint64_t), load_byte(uint64_t)  read memory: Loads
//       uint64_t load_code(uint64_t)   … the code object of a frame whose instruction says which it is
//       uint64_t load_owner(uint64_t)  … the byte that shows whether a frame is a shim
template <class Sink>
class ChainWalk {
 public:
  ChainWalk(const Layout& layout, Sink& sink) noexcept : at_(layout), sink_(sink) {}

  void run(uint64_t thread) noexcept {
    bool good = true;
    switch (chain_of(at_)) {
      case Chain::FRAME_OBJECTS:
        good = frame_objects(thread);
        break;
      case Chain::ENTRY_FLAGS:
      case Chain::CFRAME_SHIMS:
        good = cframes(load(thread + at_.thread_cframe));
        break;
      case Chain::SHIMS:
        good = shims(load(thread + at_.thread_frame), nullptr);
        break;
    }
    if (!good) sink_.reset();
  }

 private:
  // As long a chain as any program's: a stale link may lead in a circle.
  static constexpr uint32_t kMostSteps = 1 << 16;

  // 3.10: every call of a Python function is a call of the evaluator, so the n-th frame from outside has the n-th CFrame from outside. At the
  // innermost end one of the two may be one ahead: then both do not end together, and they are counted. The outermost CFrame belongs to the
  // thread state: it evaluates nothing, and its pointer to a previous one was never written.
  bool frame_objects(uint64_t thread) noexcept {
    uint64_t frame = load(thread + at_.thread_frame), cframe = load(thread + at_.thread_cframe);
    uint64_t root = thread + at_.thread_root_cframe;
    bool paired = false;
    if (!pair(frame, cframe, root, 0, &paired)) return false;
    if (paired) return true;
    sink_.reset();
    int64_t missing = length(frame, 0, at_.frame_previous) - length(cframe, root, at_.cframe_previous);
    for (; missing < 0; missing++) cframe = load(cframe + at_.cframe_previous);
    return pair(frame, cframe, root, missing, &paired);
  }

  // The first `missing` frames have no CFrame. `paired`: the two lists end together, as far as they were followed.
  bool pair(uint64_t frame, uint64_t cframe, uint64_t root, int64_t missing, bool* paired) noexcept {
    for (uint32_t step = 0; is_address(frame) && step < kMostSteps; step++) {
      auto index = static_cast<int32_t>(load(frame + at_.frame_instruction));
      *paired = true;
      Take take = sink_.frame({frame, load(frame + at_.frame_code), index * 2});
      if (take != Take::MORE) return take == Take::ENOUGH;
      if (missing > 0) {
        missing--;
        sink_.close(0);
      } else {
        sink_.close(cframe);
        cframe = load(cframe + at_.cframe_previous);
      }
      frame = load(frame + at_.frame_previous);
    }
    *paired = cframe == root;
    return true;
  }

  int64_t length(uint64_t link, uint64_t end, uint16_t previous) noexcept {
    uint32_t count = 0;
    for (; is_address(link) && link != end && count < kMostSteps; count++) link = load(link + previous);
    return count;
  }

  bool cframes(uint64_t cframe) noexcept {
    if (!is_address(cframe)) return true;
    uint64_t caller = load(cframe + at_.cframe_previous);
    // The outermost CFrame is the thread state's own.
    uint64_t callers_frame = is_address(caller) ? load(caller + at_.cframe_current) : 0;
    uint64_t frame = load(cframe + at_.cframe_current);
    bool shimmed = chain_of(at_) == Chain::CFRAME_SHIMS;
    if (shimmed ? shims(frame, &callers_frame) : entry_flags(frame, cframe, &callers_frame)) return true;
    sink_.reset();
    return shimmed ? shims(callers_frame, nullptr) : entry_flags(callers_frame, caller, nullptr);
  }

  // With `callers_frame`, the innermost evaluator's frames must lead to it.
  bool entry_flags(uint64_t frame, uint64_t cframe, const uint64_t* callers_frame) noexcept {
    for (uint32_t step = 0; is_address(frame) && step < kMostSteps; step++) {
      Take take = sink_.frame(interpreter_frame(frame, sink_.load_code(frame + at_.frame_code)));
      if (take != Take::MORE) return take == Take::ENOUGH;
      uint64_t previous = load(frame + at_.frame_previous);
      if (load_byte(frame + at_.frame_entry)) {
        if (callers_frame && previous != *callers_frame) return false;
        callers_frame = nullptr;
        sink_.close(cframe);
        cframe = load(cframe + at_.cframe_previous);
      }
      frame = previous;
    }
    return !callers_frame;
  }

  bool shims(uint64_t frame, const uint64_t* callers_frame) noexcept {
    for (uint32_t step = 0; is_address(frame) && step < kMostSteps; step++) {
      uint64_t previous = load(frame + at_.frame_previous);
      if (sink_.load_owner(frame + at_.frame_owner) >= at_.shim_owner) {
        if (callers_frame && previous != *callers_frame) return false;
        callers_frame = nullptr;
        sink_.close(frame);
      } else {
        Take take = sink_.frame(interpreter_frame(frame, sink_.load_code(frame + at_.frame_code) & at_.pointer_mask));
        if (take != Take::MORE) return take == Take::ENOUGH;
      }
      frame = previous;
    }
    return !callers_frame;
  }

  RawFrame interpreter_frame(uint64_t frame, uint64_t code) const noexcept {
    return {frame, code, static_cast<int64_t>(load(frame + at_.frame_instruction) - code - at_.code_instructions)};
  }

  uint64_t load(uint64_t address) const noexcept { return sink_.load(address); }
  uint64_t load_byte(uint64_t address) const noexcept { return sink_.load_byte(address); }

  const Layout& at_;
  Sink& sink_;
};

}  // namespace aiflame::python
