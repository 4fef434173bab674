#include "hooks/python/functions.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "hooks/python/bridge.hpp"
#include "hooks/python/values.hpp"
#include "hooks/regions/regions.hpp"
#include "records/calls.hpp"
#include "records/kernel_variants.hpp"
#include "records/live_bytes.hpp"
#include "sampler/signals.hpp"
#include "spool/spool.hpp"
#include "unwind/python_frames.hpp"
#include "unwind/python_layers.hpp"

#include <cstring>
#include <iterator>

namespace aiflame::bridge {

namespace {

Object new_layers = nullptr;

Object nothing() noexcept {
  py.hold(py.none);
  return py.none;
}

Object row_number(uint32_t row) noexcept { return py.new_number(row); }

unsigned bits_of(schema::Cell cell) noexcept {
  switch (cell) {
    case schema::Cell::U8:
      return 8;
    case schema::Cell::U16:
      return 16;
    case schema::Cell::U64:
    case schema::Cell::I64:
      return 64;
    default:
      return 32;
  }
}

bool put(Object value, const schema::ColumnLayout& column, char* record) noexcept {
  using schema::Cell;
  uint64_t number = 0;
  unsigned bits = bits_of(column.cell);
  if (column.cell == Cell::STR || column.cell == Cell::BLOB) {
    Text text(value);
    if (!text.good()) return false;
    number = spool::text(text.view());
  } else if (!read_number(value, bits, column.cell == Cell::I32 || column.cell == Cell::I64, &number)) {
    return false;
  }
  memcpy(record + column.offset, &number, bits / 8);
  return true;
}

const schema::TableLayout* layout_of(std::string_view table) noexcept {
  for (const schema::TableLayout& layout : schema::kLayouts)
    if (table == layout.name) return &layout;
  py.set_error(*py.value_error, "no table has this name");
  return nullptr;
}

Object append(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  if (count < 1 || keywords) {
    py.set_error(*py.type_error, "append(table, *values)");
    return nullptr;
  }
  Text name(given[0]);
  if (!name.good()) return nullptr;
  const schema::TableLayout* layout = layout_of(name.view());
  if (!layout) return nullptr;
  if (count - 1 != layout->columns) {
    py.set_error(*py.type_error, "append: a value for each column of the table");
    return nullptr;
  }
  control::Use use;
  if (!control::recording()) return row_number(0);
  alignas(8) char record[schema::kLargestRecord] = {};
  for (size_t at = 0; at < layout->columns; at++)
    if (!put(given[1 + at], schema::kColumns[layout->first + at], record)) return nullptr;
  return row_number(spool::append_bytes(layout->table, record, layout->bytes));
}

// --- Regions -------------------------------------------------------------------------------------------------------------

Object push(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"name", "domain", "category", "color"};
  Arguments arguments(kNames, 1);
  if (!arguments.bind(given, count, keywords)) return nullptr;
  Text name(arguments[0]), domain(arguments[1]), category(arguments[2]);
  uint64_t color;
  if (!name.good() || !domain.good() || !category.good() || !read_number(arguments[3], 0, &color)) return nullptr;
  poke(now_ns());
  return row_number(regions::push({.api = schema::RegionApi::AIFLAME,
                                   .kind = schema::RegionKind::NESTED,
                                   .domain = domain.view(),
                                   .category = category.view(),
                                   .name = name.view(),
                                   .color = static_cast<uint32_t>(color),
                                   .payload = 0,
                                   .payload_type = schema::PayloadType::NONE}));
}

Object pop(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"domain"};
  Arguments arguments(kNames, 0);
  if (!arguments.bind(given, count, keywords)) return nullptr;
  Text domain(arguments[0]);
  if (!domain.good()) return nullptr;
  return row_number(regions::pop(schema::RegionApi::AIFLAME, domain.view()));
}

// None: no payload; the sign of an integer, or a float, says which it is.
bool read_payload(Object value, uint64_t* payload, schema::PayloadType* type) noexcept {
  *payload = 0;
  *type = schema::PayloadType::NONE;
  if (!value || value == py.none) return true;
  if (py.is_instance(value, py.real_type) == 1) {
    double real = py.real(value);
    memcpy(payload, &real, sizeof real);
    *type = schema::PayloadType::FLOAT;
    return true;
  }
  *type = schema::PayloadType::UNSIGNED;
  if (read_number(value, 64, false, payload)) return true;
  if (!py.error_is(*py.value_error)) return false;
  py.clear_error();
  *type = schema::PayloadType::SIGNED;
  return read_number(value, 64, true, payload);
}

Object begin(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"name", "domain", "api", "kind", "payload", "category", "color"};
  Arguments arguments(kNames, 1);
  if (!arguments.bind(given, count, keywords)) return nullptr;
  Text name(arguments[0]), domain(arguments[1]), category(arguments[5]);
  uint64_t api, kind, color, payload;
  schema::PayloadType type;
  bool good = name.good() && domain.good() && category.good() &&
              read_number(arguments[2], static_cast<uint64_t>(schema::RegionApi::AUTOMATIC), &api) &&
              read_number(arguments[3], static_cast<uint64_t>(schema::RegionKind::FREE), &kind) && read_payload(arguments[4], &payload, &type) &&
              read_number(arguments[6], 0, &color);
  if (!good) return nullptr;
  poke(now_ns());
  return row_number(regions::begin({.api = static_cast<schema::RegionApi>(api),
                                    .kind = static_cast<schema::RegionKind>(kind),
                                    .domain = domain.view(),
                                    .category = category.view(),
                                    .name = name.view(),
                                    .color = static_cast<uint32_t>(color),
                                    .payload = payload,
                                    .payload_type = type}));
}

// --- Functions of one number ---------------------------------------------------------------------------------------------

template <auto kFunction>
Object with_number(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"number"};
  Arguments arguments(kNames, 1);
  uint64_t number;
  if (!arguments.bind(given, count, keywords) || !read_number(arguments[0], 0, &number)) return nullptr;
  kFunction(number);
  return nothing();
}

void end_region(uint64_t row) noexcept { regions::end(static_cast<uint32_t>(row)); }

// --- Names ---------------------------------------------------------------------------------------------------------------

Object name_layer(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"address", "root", "path", "type"};
  Arguments arguments(kNames, 4);
  uint64_t address, root;
  if (!arguments.bind(given, count, keywords) || !read_number(arguments[0], 0, &address) || !read_number(arguments[1], 0, &root)) return nullptr;
  Text path(arguments[2]), type(arguments[3]);
  if (!path.good() || !type.good()) return nullptr;
  signals::FaultsOpen faults;  // the object may be gone
  return row_number(control::recording() ? python::layers::name(address, root, path.view(), type.view()) : 0);
}

Object variant(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"function", "name", "readable", "details"};
  Arguments arguments(kNames, 4);
  uint64_t function;
  if (!arguments.bind(given, count, keywords) || !read_number(arguments[0], 0, &function)) return nullptr;
  Text name(arguments[1]), readable(arguments[2]), details(arguments[3]);
  if (!name.good() || !readable.good() || !details.good()) return nullptr;
  return row_number(kernel_variants::add(function, name.view(), readable.view(), details.view()));
}

// `members`: u32 each, as bytes.
Object add_group(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"backend", "handle", "rank", "size", "name", "members"};
  Arguments arguments(kNames, 6);
  uint64_t backend, handle, rank, size;
  if (!arguments.bind(given, count, keywords) || !read_number(arguments[0], 0, &backend) || !read_number(arguments[1], 0, &handle) ||
      !read_number(arguments[2], 0, &rank) || !read_number(arguments[3], 0, &size))
    return nullptr;
  Text name(arguments[4]), members(arguments[5]);
  if (!name.good() || !members.good()) return nullptr;
  return row_number(
      calls::add_group({.backend = static_cast<schema::CallBackend>(backend),
                        .handle = handle,
                        .rank = static_cast<uint32_t>(rank),
                        .size = static_cast<uint32_t>(size),
                        .name = name.view(),
                        .members = {reinterpret_cast<const uint32_t*>(members.view().data()), members.view().size() / sizeof(uint32_t)}}));
}

Object when_layers_are_new(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"callable"};
  Arguments arguments(kNames, 1);
  if (!arguments.bind(given, count, keywords)) return nullptr;
  bool callable = py.is_callable(arguments[0]) == 1;
  if (!callable && arguments[0] != py.none) {
    py.set_error(*py.type_error, "a callable is wanted, or None");
    return nullptr;
  }
  Object before = new_layers;
  new_layers = callable ? arguments[0] : nullptr;
  if (new_layers) py.hold(new_layers);
  if (before) py.release(before);
  return nothing();
}

Object note(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"text"};
  Arguments arguments(kNames, 1);
  if (!arguments.bind(given, count, keywords)) return nullptr;
  Text text(arguments[0]);
  if (!text.good()) return nullptr;
  spool::note(text.view());
  return nothing();
}

// 0: nothing is recorded now.
Object bytes_now(Object, const Object*, intptr_t, Object) noexcept { return py.new_number(control::recording() ? live_bytes::now() : 0); }

// `frame`: of this thread's. A variable without a value is None.
Object variable(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"frame", "place"};
  Arguments arguments(kNames, 2);
  uint64_t place;
  if (!arguments.bind(given, count, keywords) || !read_number(arguments[1], 0, &place)) return nullptr;
  signals::FaultsOpen faults;
  uint64_t object = python::variable_of(reinterpret_cast<uint64_t>(arguments[0]), place);
  if (!object) return nothing();
  py.hold(reinterpret_cast<Object>(object));
  return reinterpret_cast<Object>(object);
}

Object clock_now(Object, const Object*, intptr_t, Object) noexcept { return py.new_number(now_ns()); }

}  // namespace

Object layers_are_new() noexcept { return new_layers; }

Method method(const char* name, Function* function) noexcept {
  return {.name = name, .function = reinterpret_cast<void*>(function), .flags = kFastCall | kKeywords, .doc = nullptr};
}

bool add_functions(Object module, std::span<Method> methods) noexcept {
  Held name(py.attribute(module, "__name__"));
  if (!name) return false;
  for (Method& one : methods) {
    Held function(py.new_function(&one, module, name.get()));
    if (!function || py.set_attribute(module, one.name, function.get()) != 0) return false;
  }
  return true;
}

bool add_functions(Object module) noexcept {
  AIFLAME_LARGE static Method methods[] = {
      method("append", append),
      method("push", push),
      method("pop", pop),
      method("begin", begin),
      method("end", with_number<end_region>),
      method("name_layer", name_layer),
      method("forget_layer", with_number<python::layers::forget>),
      method("variant", variant),
      method("add_group", add_group),
      method("when_layers_are_new", when_layers_are_new),
      method("note", note),
      method("live_bytes", bytes_now),
      method("variable", variable),
      method("now_ns", clock_now),
  };
  return add_functions(module, methods) && add_functions_of_others(module);
}

}  // namespace aiflame::bridge
