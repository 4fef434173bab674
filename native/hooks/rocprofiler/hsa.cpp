// Calls of HSA with their results → `calls`, where `--trace hsa` asks for them: those of HIP's runtime, too, which lie within its calls.
#include "base/large.hpp"
#include "base/own_process.hpp"
#include "hooks/rocprofiler/calls.hpp"
#include "hooks/rocprofiler/internal.hpp"
#include "hooks/shared/caller.hpp"
#include "hooks/stand_in/watched.hpp"
#include "spool/control.hpp"

#include <string_view>

namespace aiflame::rocprofiler {

namespace {

using stand_in::Answer;

constexpr int32_t kMostOfTable = 512;
// Written before the first call is heard. HSA has several tables of functions, and rocprofiler a kind for each.
struct FunctionTable {
  int32_t chosen[kMostOfTable];
  int32_t chosen_count;
  TracedFunction functions[kMostOfTable];
};
AIFLAME_LARGE constinit FunctionTable tables[kHsaFinalizer]{};
thread_local OpenCalls open;

FunctionTable* table_of(int32_t kind) noexcept { return kind >= kHsaCore && kind <= kHsaFinalizer ? &tables[kind - kHsaCore] : nullptr; }

// They read one word of memory, and programs that wait do so over and over.
bool is_poll(std::string_view name) noexcept { return name.starts_with("hsa_signal_load_") || name.starts_with("hsa_queue_load_"); }

// Functions that return a value, or nothing, where the others return a status.
bool returns_status(std::string_view name) noexcept {
  if (name.starts_with("hsa_queue_")) return stand_in::is_one_of(name, {"hsa_queue_create", "hsa_queue_destroy", "hsa_queue_inactivate"});
  if (name.starts_with("hsa_signal_")) return name.ends_with("_create") || name.ends_with("_destroy") || name.starts_with("hsa_signal_group_");
  return !name.starts_with("hsa_amd_signal_wait_");
}

stand_in::Fact fact_of(const char* called) noexcept {
  std::string_view name = called;
  stand_in::Fact fact{called, returns_status(name) ? Answer::CODE : Answer::NOTHING, 0, -1, -1, 1};
  if (name == "hsa_memory_copy") fact.bytes = 2;
  if (name == "hsa_amd_memory_async_copy" || name == "hsa_amd_memory_async_copy_on_engine") fact.bytes = 4;
  if (name == "hsa_amd_memory_fill") fact.bytes = 2, fact.scale = 4;
  return fact;
}

// HSA_STATUS_ERROR and those above it. HSA_STATUS_INFO_BREAK is how a program ends an iteration.
bool is_failure(uint32_t code) noexcept { return code >= 0x1000; }

int choose(int32_t kind, int32_t operation, void*) {
  FunctionTable* table = table_of(kind);
  const char* name = nullptr;
  uint64_t length = 0;
  if (!table || operation < 0 || operation >= kMostOfTable || table->chosen_count == kMostOfTable) return 0;
  if (sdk().query_callback_tracing_kind_operation_name(kind, operation, &name, &length) != kSuccess || !name || is_poll(name)) return 0;
  TracedFunction& function = table->functions[operation];
  function = traced_function(schema::CallBackend::HSA, fact_of(name), name);
  if (function.function) table->chosen[table->chosen_count++] = operation;
  return 0;
}

void on_call(CallbackRecord record, uint64_t*, void*) {
  const FunctionTable* table = table_of(record.kind);
  if (!table || record.operation < 0 || record.operation >= kMostOfTable || !table->functions[record.operation].function) return;
  if (record.phase == kEnter) begin(open, hooks::caller());
  if (record.phase != kExit || !end(open) || !record.payload) return;
  const TracedFunction& function = table->functions[record.operation];
  calls::end(open.begun, *function.function, outcome_of(function, *static_cast<const ApiCall*>(record.payload), {kHsaResultBytes, is_failure}));
}

}  // namespace

bool listen_to_hsa(Handle context) noexcept {
  bool listens = false;
  for (int32_t kind = kHsaCore; kind <= kHsaFinalizer; kind++) {
    FunctionTable& table = *table_of(kind);
    table.chosen_count = 0;
    if (sdk().iterate_callback_tracing_kind_operations(kind, choose, nullptr) != kSuccess || !table.chosen_count) continue;
    listens |=
        sdk().configure_callback_tracing_service(context, kind, table.chosen, static_cast<size_t>(table.chosen_count), on_call, nullptr) == kSuccess;
  }
  return listens;
}

}  // namespace aiflame::rocprofiler
