#include "hooks/torch/comm_operations.hpp"

#include "records/calls.hpp"

#include <dlfcn.h>

namespace aiflame::torch_comm {

namespace {

// torch/csrc/inductor/aoti_torch/c/shim.h: kept from version to version. A handle is the address of an at::Tensor. 0 is success.
int32_t (*get_numel)(const void* tensor, int64_t* result);
int32_t (*get_dtype)(const void* tensor, int32_t* result);
size_t (*dtype_element_size)(int32_t dtype);

uint64_t bytes_of(const void* tensor) noexcept {
  int64_t count = 0;
  int32_t type = 0;
  bool known = *static_cast<void* const*>(tensor) && get_numel(tensor, &count) == 0 && get_dtype(tensor, &type) == 0 && count > 0;
  return known ? static_cast<uint64_t>(count) * dtype_element_size(type) : 0;
}

// std::vector: where its elements begin and end.
struct Vector {
  const char *begin, *end;
};

uint64_t bytes_of_list(const void* list) noexcept {
  uint64_t bytes = 0;
  auto* tensors = static_cast<const Vector*>(list);
  for (const char* tensor = tensors->begin; tensor != tensors->end; tensor += sizeof(void*)) bytes += bytes_of(tensor);
  return bytes;
}

// An std::vector is three words.
uint64_t bytes_of_lists(const void* lists) noexcept {
  uint64_t bytes = 0;
  auto* all = static_cast<const Vector*>(lists);
  for (const char* list = all->begin; list != all->end; list += 3 * sizeof(void*)) bytes += bytes_of_list(list);
  return bytes;
}

// The words 0 and 1 are the result and the backend; the function's own begin at 2.
template <unsigned kAt>
const void* at(const Arguments& arguments) noexcept {
  return reinterpret_cast<const void*>(arguments.word[2 + kAt]);
}
template <unsigned kAt>
uint64_t tensor(const Arguments& arguments) noexcept {
  return bytes_of(at<kAt>(arguments));
}
template <unsigned kAt>
uint64_t list(const Arguments& arguments) noexcept {
  return bytes_of_list(at<kAt>(arguments));
}
template <unsigned kAt>
uint64_t lists(const Arguments& arguments) noexcept {
  return bytes_of_lists(at<kAt>(arguments));
}
uint64_t no_bytes(const Arguments&) noexcept { return 0; }

uint32_t no_peer(const Arguments&) noexcept { return calls::kNoPeer; }
uint32_t other(const Arguments& arguments) noexcept { return static_cast<uint32_t>(arguments.word[3]); }

// A rank, where there may be none: a value that is no small number counts as none.
uint32_t rank_in(const void* options, size_t offset) noexcept {
  int64_t rank = *reinterpret_cast<const int64_t*>(static_cast<const char*>(options) + offset);
  return rank >= 0 && rank < 1 << 24 ? static_cast<uint32_t>(rank) : calls::kNoPeer;
}
// `int64_t rootRank` comes first in the options of these.
template <unsigned kAt>
uint32_t root(const Arguments& arguments) noexcept {
  return rank_in(at<kAt>(arguments), 0);
}
// In c10d::ReduceOptions it follows a ReduceOp: table of virtual functions, count of users, kind, supplement.
uint32_t root_of_reduce(const Arguments& arguments) noexcept { return rank_in(at<1>(arguments), 32); }

// Bytes are those that the rank puts in, or, where it puts nothing in, those that it gets.
constexpr Operation kOperations[] = {
    {"9broadcastERSt6vectorIN2at6TensorESaIS3_EERKNS_16BroadcastOptionsE", "broadcast", list<0>, root<1>},
    {"9allreduceERSt6vectorIN2at6TensorESaIS3_EERKNS_16AllreduceOptionsE", "all_reduce", list<0>, no_peer},
    {"16allreduce_sparseERSt6vectorIN2at6TensorESaIS3_EERKNS_16AllreduceOptionsE", "all_reduce", list<0>, no_peer},
    {"19allreduce_coalescedERSt6vectorIN2at6TensorESaIS3_EERKNS_25AllreduceCoalescedOptionsE", "all_reduce", list<0>, no_peer},
    {"6reduceERSt6vectorIN2at6TensorESaIS3_EERKNS_13ReduceOptionsE", "reduce", list<0>, root_of_reduce},
    {"9allgatherERSt6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EERS5_RKNS_16AllgatherOptionsE", "all_gather", list<1>, no_peer},
    {"19allgather_coalescedERSt6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EERS5_RKNS_16AllgatherOptionsE", "all_gather", list<1>, no_peer},
    {"15_allgather_baseERN2at6TensorES3_RKNS_16AllgatherOptionsE", "all_gather", tensor<1>, no_peer},
    {"17all_gather_singleERN2at6TensorES3_RKNS_16AllgatherOptionsE", "all_gather", tensor<1>, no_peer},
    {"31allgather_into_tensor_coalescedERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_16AllgatherOptionsE", "all_gather", list<1>, no_peer},
    {"27all_gather_single_coalescedERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_16AllgatherOptionsE", "all_gather", list<1>, no_peer},
    {"6gatherERSt6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EERS5_RKNS_13GatherOptionsE", "gather", list<1>, root<2>},
    {"7scatterERSt6vectorIN2at6TensorESaIS3_EERS1_IS5_SaIS5_EERKNS_14ScatterOptionsE", "scatter", list<0>, root<2>},
    {"14reduce_scatterERSt6vectorIN2at6TensorESaIS3_EERS1_IS5_SaIS5_EERKNS_20ReduceScatterOptionsE", "reduce_scatter", lists<1>, no_peer},
    {"20_reduce_scatter_baseERN2at6TensorES3_RKNS_20ReduceScatterOptionsE", "reduce_scatter", tensor<1>, no_peer},
    {"21reduce_scatter_singleERN2at6TensorES3_RKNS_20ReduceScatterOptionsE", "reduce_scatter", tensor<1>, no_peer},
    {"31reduce_scatter_tensor_coalescedERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_20ReduceScatterOptionsE", "reduce_scatter", list<1>, no_peer},
    {"31reduce_scatter_single_coalescedERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_20ReduceScatterOptionsE", "reduce_scatter", list<1>, no_peer},
    {"8alltoallERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_15AllToAllOptionsE", "all_to_all", list<1>, no_peer},
    {"13alltoall_baseERN2at6TensorES3_RSt6vectorIlSaIlEES7_RKNS_15AllToAllOptionsE", "all_to_all", tensor<1>, no_peer},
    {"17all_to_all_singleERN2at6TensorES3_RSt6vectorIlSaIlEES7_RKNS_15AllToAllOptionsE", "all_to_all", tensor<1>, no_peer},
    {"4sendERSt6vectorIN2at6TensorESaIS3_EEii", "send", list<0>, other},
    {"4recvERSt6vectorIN2at6TensorESaIS3_EEii", "recv", list<0>, other},
    {"13recvAnysourceERSt6vectorIN2at6TensorESaIS3_EEi", "recv", list<0>, no_peer},
    {"7barrierERKNS_14BarrierOptionsE", "barrier", no_bytes, no_peer},
    {"16monitoredBarrierERKNS_14BarrierOptionsEb", "monitored_barrier", no_bytes, no_peer, false},
};

template <class Function>
bool find(void* library, const char* name, Function** out) noexcept {
  *out = reinterpret_cast<Function*>(dlsym(library, name));
  return *out != nullptr;
}

}  // namespace

const Operation* find_operation(std::string_view mangled, std::string_view* backend) noexcept {
  constexpr std::string_view kNamespace = "_ZN4c10d", kClass = "ProcessGroup";
  if (!mangled.starts_with(kNamespace)) return nullptr;
  mangled.remove_prefix(kNamespace.size());
  size_t length = 0;
  for (; !mangled.empty() && mangled[0] >= '0' && mangled[0] <= '9'; mangled.remove_prefix(1))
    length = 10 * length + static_cast<size_t>(mangled[0] - '0');
  if (length > mangled.size() || length <= kClass.size() || !mangled.starts_with(kClass)) return nullptr;
  *backend = mangled.substr(kClass.size(), length - kClass.size());
  for (const Operation& operation : kOperations)
    if (operation.signature == mangled.substr(length)) return &operation;
  return nullptr;
}

bool find_tensor_functions(void* library) noexcept {
  return find(library, "aoti_torch_get_numel", &get_numel) && find(library, "aoti_torch_get_dtype", &get_dtype) &&
         find(library, "aoti_torch_dtype_element_size", &dtype_element_size);
}

}  // namespace aiflame::torch_comm
