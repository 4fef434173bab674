// NVTX: the library that NVTX_INJECTION64_PATH names (native/agent) is asked once by each library of the program that has NVTX in it,
// and puts our functions into that library's table.
#include "hooks/regions/interned_texts.hpp"
#include "hooks/regions/nvtx_api.hpp"
#include "hooks/regions/regions.hpp"
#include "hooks/regions/wide_text.hpp"
#include "hooks/shared/exported.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"

#include <atomic>
#include <bit>
#include <charconv>
#include <cstring>

namespace aiflame::nvtx {

// Never freed: other threads may still use a destroyed domain.
struct Category {
  uint32_t number;
  std::string_view name;
  Category* next;
};
struct Domain {
  std::string_view name;
  std::atomic<Category*> categories;
};
struct RegisteredString {
  std::string_view text;
};

namespace {

using regions::Spec;
using schema::RegionApi;
using schema::RegionKind;

constinit Domain default_domain{{}, nullptr};

Domain& domain_of(Domain* handle) noexcept { return handle ? *handle : default_domain; }
std::string_view view(const char* text) noexcept { return text ? std::string_view(text) : std::string_view(); }

// A category's name, or its number; 0 is none.
class CategoryText {
 public:
  CategoryText(const Domain& domain, uint32_t number) noexcept {
    if (number == 0) return;
    for (const Category* category = domain.categories.load(std::memory_order_acquire); category; category = category->next) {
      if (category->number != number) continue;
      view_ = category->name;
      return;
    }
    view_ = {digits_, static_cast<size_t>(std::to_chars(digits_, digits_ + sizeof digits_, number).ptr - digits_)};
  }
  std::string_view view() const noexcept { return view_; }

 private:
  char digits_[12];
  std::string_view view_;
};

struct Payload {
  uint64_t bits = 0;
  schema::PayloadType type = schema::PayloadType::NONE;
};

Payload payload_of(const Attributes& event) noexcept {
  auto low = static_cast<uint32_t>(event.payload);
  switch (event.payload_type) {
    case UNSIGNED_64:
      return {event.payload, schema::PayloadType::UNSIGNED};
    case UNSIGNED_32:
      return {low, schema::PayloadType::UNSIGNED};
    case SIGNED_64:
      return {event.payload, schema::PayloadType::SIGNED};
    case SIGNED_32:
      return {static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(low))), schema::PayloadType::SIGNED};
    case DOUBLE:
      return {event.payload, schema::PayloadType::FLOAT};
    case FLOAT:
      return {std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(low))), schema::PayloadType::FLOAT};
    default:
      return {};
  }
}

// Hands the region that an event describes to `use`. An event of another size than ours may end before the message.
template <class Use>
auto with_spec(Domain* handle, const Attributes* event, RegionKind kind, Use use) noexcept {
  const Domain& domain = domain_of(handle);
  Spec spec{.api = RegionApi::NVTX, .kind = kind, .domain = domain.name};
  if (!event || event->size < sizeof(Attributes)) return use(spec);
  CategoryText category(domain, event->category);
  Payload payload = payload_of(*event);
  spec.category = category.view();
  spec.color = event->color_type == ARGB ? event->color : 0;
  spec.payload = payload.bits;
  spec.payload_type = payload.type;
  if (event->message_type == UNICODE) {
    WideText wide(static_cast<const wchar_t*>(event->message));
    spec.name = wide.view();
    return use(spec);
  }
  if (event->message_type == ASCII) spec.name = view(static_cast<const char*>(event->message));
  if (event->message_type == REGISTERED && event->message) spec.name = static_cast<const RegisteredString*>(event->message)->text;
  return use(spec);
}

Spec named(std::string_view name, RegionKind kind) noexcept { return {.api = RegionApi::NVTX, .kind = kind, .name = name}; }

int push_range(const Spec& spec) noexcept {
  regions::push(spec);
  return kNoTracking;
}

// A range's id includes its recording: the range may end after that.
RangeId start_range(const Spec& spec) noexcept {
  control::Use use;
  uint32_t row = regions::begin(spec);
  return row ? static_cast<RangeId>(regions::recording_number()) << 32 | row : 0;
}

void mark_moment(const Spec& spec) noexcept { regions::begin(spec); }

int domain_push_ex(Domain* domain, const Attributes* event) noexcept { return with_spec(domain, event, RegionKind::NESTED, push_range); }
RangeId domain_start_ex(Domain* domain, const Attributes* event) noexcept { return with_spec(domain, event, RegionKind::FREE, start_range); }
void domain_mark_ex(Domain* domain, const Attributes* event) noexcept { with_spec(domain, event, RegionKind::MARK, mark_moment); }

int domain_pop(Domain* domain) noexcept {
  regions::pop(RegionApi::NVTX, domain_of(domain).name);
  return kNoTracking;
}

void range_end(RangeId id) noexcept {
  control::Use use;
  if (id >> 32 == regions::recording_number()) regions::end(static_cast<uint32_t>(id));
}
void domain_range_end(Domain*, RangeId id) noexcept { range_end(id); }

int push_ex(const Attributes* event) noexcept { return domain_push_ex(nullptr, event); }
int push_a(const char* text) noexcept { return push_range(named(view(text), RegionKind::NESTED)); }
int push_w(const wchar_t* text) noexcept { return push_range(named(WideText(text).view(), RegionKind::NESTED)); }
int pop() noexcept { return domain_pop(nullptr); }
RangeId start_ex(const Attributes* event) noexcept { return domain_start_ex(nullptr, event); }
RangeId start_a(const char* text) noexcept { return start_range(named(view(text), RegionKind::FREE)); }
RangeId start_w(const wchar_t* text) noexcept { return start_range(named(WideText(text).view(), RegionKind::FREE)); }
void mark_ex(const Attributes* event) noexcept { domain_mark_ex(nullptr, event); }
void mark_a(const char* text) noexcept { mark_moment(named(view(text), RegionKind::MARK)); }
void mark_w(const wchar_t* text) noexcept { mark_moment(named(WideText(text).view(), RegionKind::MARK)); }

void name_category(Domain& domain, uint32_t number, std::string_view name) noexcept {
  auto* category = interned::thing<Category>();
  if (!category) return;
  category->number = number;
  category->name = interned::copy(name);
  category->next = domain.categories.load(std::memory_order_relaxed);
  while (!domain.categories.compare_exchange_weak(category->next, category, std::memory_order_release)) {
  }
}
void domain_name_category_a(Domain* domain, uint32_t number, const char* name) noexcept { name_category(domain_of(domain), number, view(name)); }
void domain_name_category_w(Domain* domain, uint32_t number, const wchar_t* name) noexcept {
  name_category(domain_of(domain), number, WideText(name).view());
}
void name_category_a(uint32_t number, const char* name) noexcept { domain_name_category_a(nullptr, number, name); }
void name_category_w(uint32_t number, const wchar_t* name) noexcept { domain_name_category_w(nullptr, number, name); }

RegisteredString* register_string(std::string_view text) noexcept {
  auto* string = interned::thing<RegisteredString>();
  if (string) string->text = interned::copy(text);
  return string;
}
RegisteredString* register_string_a(Domain*, const char* text) noexcept { return register_string(view(text)); }
RegisteredString* register_string_w(Domain*, const wchar_t* text) noexcept { return register_string(WideText(text).view()); }

Domain* create(std::string_view name) noexcept {
  auto* domain = interned::thing<Domain>();
  if (domain) domain->name = interned::copy(name);
  return domain;
}
Domain* create_a(const char* name) noexcept { return create(view(name)); }
Domain* create_w(const wchar_t* name) noexcept { return create(WideText(name).view()); }
void destroy(Domain*) noexcept {}

// A client's table of one module; entries that it lacks, or that we leave alone, do nothing.
class Table {
 public:
  Table(const Callbacks& callbacks, Module module) noexcept {
    if (!callbacks.get_module_function_table(module, &entries_, &size_)) size_ = 0;
  }
  template <class... Arguments, class Result>
  void put(uint32_t id, Result (*function)(Arguments...) noexcept) const noexcept {
    if (id < size_ && entries_[id]) *entries_[id] = reinterpret_cast<Function>(function);
  }

 private:
  Function** entries_ = nullptr;
  unsigned size_ = 0;
};

void fill(const Callbacks& callbacks) noexcept {
  Table core(callbacks, CORE);
  core.put(MARK_EX, mark_ex);
  core.put(MARK_A, mark_a);
  core.put(MARK_W, mark_w);
  core.put(RANGE_START_EX, start_ex);
  core.put(RANGE_START_A, start_a);
  core.put(RANGE_START_W, start_w);
  core.put(RANGE_END, range_end);
  core.put(RANGE_PUSH_EX, push_ex);
  core.put(RANGE_PUSH_A, push_a);
  core.put(RANGE_PUSH_W, push_w);
  core.put(RANGE_POP, pop);
  core.put(NAME_CATEGORY_A, name_category_a);
  core.put(NAME_CATEGORY_W, name_category_w);
  Table core2(callbacks, CORE2);
  core2.put(DOMAIN_MARK_EX, domain_mark_ex);
  core2.put(DOMAIN_RANGE_START_EX, domain_start_ex);
  core2.put(DOMAIN_RANGE_END, domain_range_end);
  core2.put(DOMAIN_RANGE_PUSH_EX, domain_push_ex);
  core2.put(DOMAIN_RANGE_POP, domain_pop);
  core2.put(DOMAIN_NAME_CATEGORY_A, domain_name_category_a);
  core2.put(DOMAIN_NAME_CATEGORY_W, domain_name_category_w);
  core2.put(DOMAIN_REGISTER_STRING_A, register_string_a);
  core2.put(DOMAIN_REGISTER_STRING_W, register_string_w);
  core2.put(DOMAIN_CREATE_A, create_a);
  core2.put(DOMAIN_CREATE_W, create_w);
  core2.put(DOMAIN_DESTROY, destroy);
}

}  // namespace

}  // namespace aiflame::nvtx

using namespace aiflame;

// 1: we are its tool; with 0 the client takes all our functions out again.
AIFLAME_EXPORT int aiflame_nvtx_initialize(nvtx::GetExportTable get_export_table) noexcept {
  if (!get_export_table || !control::has(schema::Feature::NVTX)) return 0;
  auto* callbacks = static_cast<const nvtx::Callbacks*>(get_export_table(nvtx::CALLBACKS));
  if (!callbacks || callbacks->struct_size < sizeof *callbacks || !callbacks->get_module_function_table) return 0;
  nvtx::fill(*callbacks);
  return 1;
}
