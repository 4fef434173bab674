#include "hooks/torch/model_calls.hpp"

#include "base/clock.hpp"
#include "hooks/python/bridge.hpp"
#include "hooks/python/call_pointers.hpp"
#include "sampler/signals.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"
#include "unwind/python_layers.hpp"

#include <dlfcn.h>
#include <string_view>
#include <type_traits>

namespace aiflame::torch_models {

namespace {

using bridge::Call;
using bridge::Object;
using bridge::py;

constexpr size_t kCount = ~size_t{0} >> 1;

Call call_function;        // as CPython has it for every function
thread_local bool inside;  // the thread is in a call

// torch/csrc/inductor/aoti_torch/c/shim.h: kept from version to version. A handle is the address of an at::Tensor. 0 is success.
int32_t (*get_dim)(const void* tensor, int64_t* result);
int32_t (*get_sizes)(const void* tensor, int64_t** result);
int32_t (*get_dtype)(const void* tensor, int32_t* result);
constexpr int32_t kInt = 3, kLong = 4;  // c10::ScalarType

Object tensor_type;
size_t tensor_at;  // of the at::Tensor in an object, in words; 0: not known

constexpr int64_t kMost = UINT32_MAX;

struct Tokens {
  int64_t sequences = 0, tokens = 0;
};

bool is_tensor(Object object) noexcept {
  bridge::Held type(py.type_of(object));
  return type.get() == tensor_type;
}

// The sizes of a tensor of whole numbers; false: the object is something else, or has another number of dimensions.
template <size_t kDimensions>
bool read_sizes(Object object, const int64_t (**out)[kDimensions]) noexcept {
  if (!is_tensor(object)) return false;
  const void* tensor = static_cast<const void* const*>(object) + tensor_at;
  int64_t dimensions = 0, *sizes = nullptr;
  int32_t kind = 0;
  if (get_dtype(tensor, &kind) != 0 || (kind != kInt && kind != kLong)) return false;
  if (get_dim(tensor, &dimensions) != 0 || dimensions != kDimensions || get_sizes(tensor, &sizes) != 0) return false;
  *out = reinterpret_cast<const int64_t (*)[kDimensions]>(sizes);
  return true;
}

Tokens tokens_in(Object object) noexcept {
  const int64_t (*sizes)[2];
  if (!read_sizes(object, &sizes)) return {};
  auto [sequences, length] = *sizes;
  bool fits = sequences > 0 && length > 0 && sequences <= kMost && length <= kMost / sequences;
  return fits ? Tokens{sequences, sequences * length} : Tokens{};
}

// Tokens by their usual names, a decoder's own before those of its encoder; else the argument after the module itself. Sequences that are packed
// into one row (continuous batching) come with a list of where each begins, and the end.
Tokens tokens_given(const Object* arguments, size_t count, Object names) noexcept {
  if (!tensor_at) return {};
  Tokens found;
  int64_t packed = 0;
  for (intptr_t at = 0, named = names ? py.tuple_size(names) : 0; at < named; at++) {
    const char* text = py.utf8(py.tuple_item(names, at), nullptr);
    std::string_view name = text ? text : "";
    Object value = arguments[count + static_cast<size_t>(at)];
    const int64_t (*sizes)[1];
    if (name == "decoder_input_ids" || (name == "input_ids" && !found.tokens)) {
      if (Tokens in = tokens_in(value); in.tokens) found = in;
    } else if (name == "cu_seq_lens_q" && read_sizes(value, &sizes)) {
      packed = (*sizes)[0] - 1;
    }
  }
  if (!found.tokens && count >= 2) found = tokens_in(arguments[1]);
  if (found.sequences == 1 && packed > 0) found.sequences = packed;
  return found;
}

void record(Object module, uint64_t begin_ns, Tokens tokens) noexcept {
  control::Use use;
  Thread* thread = control::recording() ? threads::self() : nullptr;
  if (!thread || !thread->row) return;
  uint64_t end_ns = now_ns();
  signals::FaultsOpen faults;
  uint32_t layer = python::layers::row_of(reinterpret_cast<uint64_t>(module));
  if (!layer) return;
  spool::append(schema::ModelCall{.thread = thread->row,
                                  .layer = layer,
                                  .sequences = static_cast<uint32_t>(tokens.sequences),
                                  .tokens = static_cast<uint32_t>(tokens.tokens),
                                  .begin_ns = begin_ns,
                                  .end_ns = end_ns});
  bridge::poke(end_ns);
}

Object called(Object function, const Object* arguments, size_t count, Object names) {
  size_t given = count & kCount;
  if (inside || !given || !control::recording()) return call_function(function, arguments, count, names);
  inside = true;
  Object module = arguments[0];
  Tokens tokens = tokens_given(arguments, given, names);
  uint64_t begin_ns = now_ns();
  Object result = call_function(function, arguments, count, names);
  inside = false;
  record(module, begin_ns, tokens);
  return result;
}

}  // namespace

void listen(void* library) noexcept {
  auto find = [library](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    return *function != nullptr;
  };
  if (!find(&get_dim, "aoti_torch_get_dim") || !find(&get_sizes, "aoti_torch_get_sizes") || !find(&get_dtype, "aoti_torch_get_dtype"))
    get_dim = nullptr;
}

void watch(Object function, uint64_t size, const Tensor& tensor) noexcept {
  Call known = bridge::call_of(function);
  if (known == called) return;
  call_function = known;
  tensor_type = tensor.type;
  tensor_at = get_dim ? bridge::word_with(tensor.example, tensor.size, tensor.inner) : 0;
  if (!bridge::lead_calls(function, size, known, called)) spool::note("calls of models are not recorded (this version of Python is not known)");
}

}  // namespace aiflame::torch_models
