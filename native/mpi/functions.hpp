// Descriptions of MPI functions: which arguments hold the amount, the peer and the group. Handles, counts and ranks are 64-bit words here: no MPI
// header is needed, and one library serves all implementations.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::mpi {

// How the bytes of a call are computed from its arguments; `count` and `type` describe the sent data, `count2` and `type2` the received data.
enum class Bytes : uint8_t {
  NONE,
  ONE,          // count × type
  SINGLE,       // one element of the type
  PARTITIONED,  // count (a number of partitions) × count2 × type
  // Only the share of this process, for collectives; it is the same for all processes except in v-collectives.
  GATHER,
  GATHERV,
  SCATTER,
  SCATTERV,
  ALLGATHER,
  ALLGATHERV,
  // All data that this process receives.
  ALLTOALL,
  ALLTOALLV,
  ALLTOALLW,
  // All data that this process sends.
  REDUCE_SCATTER,
  REDUCE_SCATTER_BLOCK,
};

// Numbers of arguments, from 0; -1: there is none.
struct Shape {
  Bytes bytes = Bytes::NONE;
  int8_t count = -1, type = -1, count2 = -1, type2 = -1;
  int8_t peer = -1;  // destination, source, root or target
  int8_t comm = -1, window = -1;
  int8_t new_comm = -1, new_window = -1, freed_comm = -1, freed_window = -1;  // pointers to handles
  bool poll = false;                                                          // called again and again: has a stack only on request
  bool returns = true;
  bool starts = false;  // MPI can be queried once this call has ended
  bool to_one = false;  // the peer may be nobody
};

inline constexpr Shape kNothing{};
inline constexpr Shape kPoll{.poll = true};
inline constexpr Shape kInit{.starts = true};
inline constexpr Shape kAbort{.comm = 0, .returns = false};

inline constexpr Shape kSend{.bytes = Bytes::ONE, .count = 1, .type = 2, .peer = 3, .comm = 5, .to_one = true};
inline constexpr Shape kSendrecv{.bytes = Bytes::ONE, .count = 1, .type = 2, .peer = 3, .comm = 10, .to_one = true};
inline constexpr Shape kSendrecvReplace{.bytes = Bytes::ONE, .count = 1, .type = 2, .peer = 3, .comm = 7, .to_one = true};
inline constexpr Shape kProbe{.peer = 0, .comm = 2};
inline constexpr Shape kPollProbe{.peer = 0, .comm = 2, .poll = true};
inline constexpr Shape kMatched{.bytes = Bytes::ONE, .count = 1, .type = 2};
inline constexpr Shape kPartitioned{.bytes = Bytes::PARTITIONED, .count = 1, .type = 3, .count2 = 2, .peer = 4, .comm = 6, .to_one = true};

inline constexpr Shape kBarrier{.comm = 0};
inline constexpr Shape kBcast{.bytes = Bytes::ONE, .count = 1, .type = 2, .peer = 3, .comm = 4};
inline constexpr Shape kGather{.bytes = Bytes::GATHER, .count = 1, .type = 2, .count2 = 4, .type2 = 5, .peer = 6, .comm = 7};
inline constexpr Shape kGatherv{.bytes = Bytes::GATHERV, .count = 1, .type = 2, .count2 = 4, .type2 = 6, .peer = 7, .comm = 8};
inline constexpr Shape kScatter{.bytes = Bytes::SCATTER, .count = 1, .type = 2, .count2 = 4, .type2 = 5, .peer = 6, .comm = 7};
inline constexpr Shape kScatterv{.bytes = Bytes::SCATTERV, .count = 1, .type = 3, .count2 = 5, .type2 = 6, .peer = 7, .comm = 8};
inline constexpr Shape kAllgather{.bytes = Bytes::ALLGATHER, .count = 1, .type = 2, .count2 = 4, .type2 = 5, .comm = 6};
inline constexpr Shape kAllgatherv{.bytes = Bytes::ALLGATHERV, .count = 1, .type = 2, .count2 = 4, .type2 = 6, .comm = 7};
inline constexpr Shape kAlltoall{.bytes = Bytes::ALLTOALL, .count = 1, .type = 2, .count2 = 4, .type2 = 5, .comm = 6};
inline constexpr Shape kAlltoallv{.bytes = Bytes::ALLTOALLV, .count = 1, .type = 3, .count2 = 5, .type2 = 7, .comm = 8};
inline constexpr Shape kAlltoallw{.bytes = Bytes::ALLTOALLW, .count = 1, .type = 3, .count2 = 5, .type2 = 7, .comm = 8};
inline constexpr Shape kReduce{.bytes = Bytes::ONE, .count = 2, .type = 3, .peer = 5, .comm = 6};
inline constexpr Shape kAllreduce{.bytes = Bytes::ONE, .count = 2, .type = 3, .comm = 5};
inline constexpr Shape kReduceScatter{.bytes = Bytes::REDUCE_SCATTER, .count = 2, .type = 3, .comm = 5};
inline constexpr Shape kReduceScatterBlock{.bytes = Bytes::REDUCE_SCATTER_BLOCK, .count = 2, .type = 3, .comm = 5};
// Data sent to each neighbour.
inline constexpr Shape kNeighbor{.bytes = Bytes::ONE, .count = 1, .type = 2, .comm = 6};
inline constexpr Shape kNeighborV{.bytes = Bytes::ONE, .count = 1, .type = 2, .comm = 7};
inline constexpr Shape kNeighborEach{.comm = 8};

inline constexpr Shape kCommDup{.comm = 0, .new_comm = 1};
inline constexpr Shape kCommNew2{.comm = 0, .new_comm = 2};
inline constexpr Shape kCommNew3{.comm = 0, .new_comm = 3};
inline constexpr Shape kCommNew4{.comm = 0, .new_comm = 4};
inline constexpr Shape kCommNew5{.comm = 0, .new_comm = 5};
inline constexpr Shape kCommIdup{.comm = 0};
inline constexpr Shape kCommFromGroup{.new_comm = 4};
inline constexpr Shape kCommFree{.freed_comm = 0};
inline constexpr Shape kCommConnect{.peer = 2, .comm = 3, .new_comm = 4};
inline constexpr Shape kCommJoin{.new_comm = 1};
inline constexpr Shape kCommSpawn{.peer = 4, .comm = 5, .new_comm = 6};
inline constexpr Shape kCommSpawnMultiple{.peer = 5, .comm = 6, .new_comm = 7};
inline constexpr Shape kIntercommCreate{.comm = 0, .new_comm = 5};
inline constexpr Shape kIntercommFromGroups{.new_comm = 7};
inline constexpr Shape kDistGraph{.comm = 0, .new_comm = 8};
inline constexpr Shape kDistGraphAdjacent{.comm = 0, .new_comm = 9};

inline constexpr Shape kPut{.bytes = Bytes::ONE, .count = 1, .type = 2, .peer = 3, .window = 7, .to_one = true};
inline constexpr Shape kAccumulate{.bytes = Bytes::ONE, .count = 1, .type = 2, .peer = 3, .window = 8, .to_one = true};
// Received data: there may be no sent data.
inline constexpr Shape kGetAccumulate{.bytes = Bytes::ONE, .count = 4, .type = 5, .peer = 6, .window = 11, .to_one = true};
inline constexpr Shape kFetchAndOp{.bytes = Bytes::SINGLE, .type = 2, .peer = 3, .window = 6, .to_one = true};
inline constexpr Shape kCompareAndSwap{.bytes = Bytes::SINGLE, .type = 3, .peer = 4, .window = 6, .to_one = true};
inline constexpr Shape kWinCreate{.comm = 4, .new_window = 5};
inline constexpr Shape kWinAllocate{.comm = 3, .new_window = 5};
inline constexpr Shape kWinDynamic{.comm = 1, .new_window = 2};
inline constexpr Shape kWinFree{.freed_window = 0};
inline constexpr Shape kWin0{.window = 0};
inline constexpr Shape kWin1{.window = 1};
inline constexpr Shape kWin2{.window = 2};
inline constexpr Shape kWinTest{.window = 0, .poll = true};
inline constexpr Shape kWinLock{.peer = 1, .window = 3};
inline constexpr Shape kWinFlush{.peer = 0, .window = 1};

inline constexpr Shape kFile{.bytes = Bytes::ONE, .count = 2, .type = 3};
inline constexpr Shape kFileAt{.bytes = Bytes::ONE, .count = 3, .type = 4};

struct FunctionFacts {
  const char *name, *large_name;  // as C has it, with and without large counts
  uint8_t words;                  // arguments before Fortran's error code
  Shape shape;
};
inline constexpr FunctionFacts kFunctions[] = {
#define SMALL(name, small, upper, words, shape) {"MPI_" #name, nullptr, words, shape},
#define BOTH(name, small, upper, words, shape) {"MPI_" #name, "MPI_" #name "_c", words, shape},
#include "mpi/functions.inc"
#undef SMALL
#undef BOTH
};
inline constexpr size_t kFunctionCount = sizeof kFunctions / sizeof *kFunctions;

// Calling conventions. Fortran's pass addresses of arguments, and the numbers of MPI's handles.
enum Language : uint8_t {
  C,
  LARGE,    // C with 64-bit counts
  FORTRAN,  // mpif.h and the module mpi
  F08,      // the module mpi_f08: the error code may be left out
  F08TS,    // the same, with descriptors of buffers
  LANGUAGES
};

}  // namespace aiflame::mpi
