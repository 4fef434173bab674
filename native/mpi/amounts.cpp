#include "mpi/amounts.hpp"

namespace aiflame::mpi {

namespace {

class Amount {
 public:
  Amount(const Runtime& runtime, const Shape& shape, const Arguments& arguments) noexcept : runtime_(runtime), shape_(shape), arguments_(arguments) {}

  uint64_t bytes() const noexcept {
    switch (shape_.bytes) {
      case Bytes::NONE:
        return 0;
      case Bytes::ONE:
        return to_nobody() ? 0 : handed_in();
      case Bytes::SINGLE:
        return to_nobody() ? 0 : size(arguments_.type(shape_.type));
      case Bytes::PARTITIONED:
        return to_nobody() ? 0 : product(arguments_.count(shape_.count) * arguments_.large_count(shape_.count2), arguments_.type(shape_.type));
      case Bytes::GATHER:
        return root() == Root::NONE ? 0 : root() == Root::HERE ? comes_back() : handed_in();
      case Bytes::SCATTER:
        return root() == Root::NONE ? 0 : root() == Root::HERE ? handed_in() : comes_back();
      case Bytes::GATHERV:
        if (root() == Root::ELSEWHERE) return handed_in();
        return root() == Root::HERE && !between() ? product(arguments_.count_of(shape_.count2, rank()), arguments_.type(shape_.type2)) : 0;
      case Bytes::SCATTERV:
        if (root() == Root::ELSEWHERE) return comes_back();
        return root() == Root::HERE && !between() ? product(arguments_.count_of(shape_.count, rank()), arguments_.type(shape_.type)) : 0;
      case Bytes::ALLGATHER:
        return comes_back();
      case Bytes::ALLGATHERV:
        return between() ? handed_in() : product(arguments_.count_of(shape_.count2, rank()), arguments_.type(shape_.type2));
      case Bytes::ALLTOALL:
        return comes_back() * static_cast<uint64_t>(partners());
      case Bytes::ALLTOALLV:
        return product(sum(shape_.count2, partners()), arguments_.type(shape_.type2));
      case Bytes::ALLTOALLW:
        return sum_of_types();
      case Bytes::REDUCE_SCATTER:
        return product(sum(shape_.count, members()), arguments_.type(shape_.type));
      case Bytes::REDUCE_SCATTER_BLOCK:
        return handed_in() * static_cast<uint64_t>(members());
    }
    return 0;
  }

 private:
  // In an intercommunicator, the root is MPI_ROOT for itself, and MPI_PROC_NULL for the other members of its group.
  enum class Root { HERE, ELSEWHERE, NONE };
  Root root() const noexcept {
    int named = arguments_.rank(shape_.peer);
    if (named < 0) return named == runtime_.root_here ? Root::HERE : Root::NONE;
    return !between() && named == rank() ? Root::HERE : Root::ELSEWHERE;
  }
  bool to_nobody() const noexcept {
    if (shape_.peer < 0) return false;
    int named = arguments_.rank(shape_.peer);
    if (named >= 0) return false;
    // A receive from anyone has a negative peer, too; so has a broadcast's root in an intercommunicator.
    return shape_.to_one ? named == runtime_.nobody : named != runtime_.root_here;
  }

  uint64_t handed_in() const noexcept { return product(arguments_.count(shape_.count), shape_.type); }
  uint64_t comes_back() const noexcept { return product(arguments_.count(shape_.count2), shape_.type2); }
  uint64_t product(int64_t count, int8_t type) const noexcept { return count > 0 ? product(count, arguments_.type(type)) : 0; }
  uint64_t product(int64_t count, Word type) const noexcept { return count > 0 ? static_cast<uint64_t>(count) * size(type) : 0; }
  uint64_t size(Word type) const noexcept {
    int64_t large = 0;
    int small = 0;
    if (runtime_.Type_size(type, &small) == 0 && small >= 0) return static_cast<uint64_t>(small);
    return runtime_.Type_size_x && runtime_.Type_size_x(type, &large) == 0 && large > 0 ? static_cast<uint64_t>(large) : 0;
  }

  int64_t sum(int8_t counts, int members) const noexcept {
    int64_t total = 0;
    for (int member = 0; member < members; member++) total += arguments_.count_of(counts, member);
    return total;
  }
  uint64_t sum_of_types() const noexcept {
    uint64_t total = 0;
    for (int member = 0, all = partners(); member < all; member++)
      if (int64_t count = arguments_.count_of(shape_.count2, member); count > 0) total += product(count, arguments_.type_of(shape_.type2, member));
    return total;
  }

  Word comm() const noexcept { return arguments_.comm(shape_.comm); }
  int ask(int (*question)(Word, int*)) const noexcept {
    int answer = 0;
    return question && question(comm(), &answer) == 0 ? answer : 0;
  }
  int rank() const noexcept { return ask(runtime_.Comm_rank); }
  bool between() const noexcept { return ask(runtime_.Comm_test_inter) != 0; }
  int members() const noexcept { return ask(runtime_.Comm_size); }
  int partners() const noexcept { return between() ? ask(runtime_.Comm_remote_size) : members(); }

  const Runtime& runtime_;
  const Shape& shape_;
  const Arguments& arguments_;
};

}  // namespace

uint64_t bytes_of(const Runtime& runtime, const Shape& shape, const Arguments& arguments) noexcept {
  return shape.bytes == Bytes::NONE ? 0 : Amount(runtime, shape, arguments).bytes();
}

}  // namespace aiflame::mpi
