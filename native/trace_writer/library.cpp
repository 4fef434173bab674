// The library's function, as event_text.py in exchange/writers calls it.
#include "trace_writer/event_text.hpp"

using namespace aiflame::trace_writer;

extern "C" [[gnu::visibility("default")]] size_t aiflame_events_write(const Events* events, int64_t* row, bool is_first, char* to, size_t room) {
  return write(*events, row, is_first, to, room);
}
