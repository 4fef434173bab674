// The library's functions, as json_rows.py, nesting.py and sqlite_pages.py in exchange/readers call them.
#include "trace_reader/arrow.hpp"
#include "trace_reader/document.hpp"
#include "trace_reader/nest.hpp"
#include "trace_reader/sqlite_table.hpp"

#include <new>

#define AIFLAME_EXPORT extern "C" [[gnu::visibility("default")]]

using namespace aiflame::trace_reader;

namespace {

struct Summary {
  uint64_t rows, place, damaged_places, damaged_bytes, cut, found_array, refused_texts, texts, keys, members;
};

}  // namespace

// Null: no memory.
AIFLAME_EXPORT Document* aiflame_rows_open(Span array_key, const Wanted* wanted, uint32_t count, uint64_t most_text_bytes, uint64_t seed) {
  void* room = malloc(sizeof(Document));
  if (!room) return nullptr;
  auto* document = new (room) Document(most_text_bytes, seed);
  if (document->begin(array_key, wanted, count) == Failure::NONE) return document;
  document->~Document();
  free(room);
  return nullptr;
}

AIFLAME_EXPORT void aiflame_rows_close(Document* document) {
  document->~Document();
  free(document);
}

AIFLAME_EXPORT Failure aiflame_rows_feed(Document* document, Span block) { return document->feed(block); }
AIFLAME_EXPORT Failure aiflame_rows_finish(Document* document) { return document->finish(); }

AIFLAME_EXPORT void aiflame_rows_summary(const Document* document, Summary* to) {
  const Damage& damage = document->damage();
  *to = {.rows = document->rows(),
         .place = document->place(),
         .damaged_places = damage.places,
         .damaged_bytes = damage.bytes,
         .cut = damage.cut,
         .found_array = damage.found_array,
         .refused_texts = document->texts().refused(),
         .texts = document->texts().count(),
         .keys = document->keys().count(),
         .members = document->members().count()};
}

// Of the rows that the last call completed.
AIFLAME_EXPORT const void* aiflame_rows_column(const Document* document, uint32_t column) { return document->column(column).data(); }
AIFLAME_EXPORT uint64_t aiflame_rows_unfit(const Document* document, uint32_t column) { return document->column(column).unfit; }

// How many events have a key that nobody wants; the name of the key, and the number of the one whose object has it, or 0.
AIFLAME_EXPORT uint64_t aiflame_rows_key(const Document* document, uint32_t key, Span* name, uint32_t* parent) {
  *name = document->keys().name(key);
  *parent = document->keys().parent(key);
  return document->keys()[key].unused;
}

// False: the value was too large to keep.
AIFLAME_EXPORT bool aiflame_rows_member(const Document* document, uint64_t member, Span* name, Span* value) {
  *name = document->members().name(member);
  *value = document->members().value(member);
  return document->members().kept(member);
}

// False: there is no such text.
AIFLAME_EXPORT bool aiflame_rows_text(const Document* document, uint32_t id, Span* text) {
  if (id == 0 || id > document->texts().count()) return false;
  *text = document->texts().text(id);
  return true;
}

// All texts, in Arrow's C data interface. False: no memory.
AIFLAME_EXPORT bool aiflame_rows_texts(const Document* document, ArrowSchema* schema, ArrowArray* array) {
  return export_texts(document->texts(), schema, array);
}

AIFLAME_EXPORT bool aiflame_spans_in_order(const Spans* spans) { return spans->in_order(); }
AIFLAME_EXPORT int64_t aiflame_spans_nest(const Spans* spans, int32_t* parent, int64_t* cut_end) { return nest(*spans, parent, cut_end); }

// The texts, of `most_text_bytes` at most, in Arrow's C data interface. False: SQLite itself has to read the table.
AIFLAME_EXPORT bool aiflame_sqlite_columns(int file, uint32_t root, WantedColumn* wanted, uint32_t count, int64_t rows, uint64_t most_text_bytes,
                                           uint64_t seed, ArrowSchema* schema, ArrowArray* array) {
  Texts texts(most_text_bytes, seed);
  return sqlite_columns(file, root, wanted, count, rows, &texts) && !texts.refused() && export_texts(texts, schema, array);
}
