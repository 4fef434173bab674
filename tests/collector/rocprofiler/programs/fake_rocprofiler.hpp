// A stand-in for AMD's runtime and its rocprofiler-sdk 1.0, on no GPU. It shares nothing with the collector's hook: layouts and numbers are written
// down again, from rocprofiler's documentation. A call that breaks the documented order, or a value that was not offered, is counted as a violation,
// and gets the documented status.
//
// FAKE_ROCM, words separated by commas: `stochastic` and `host_trap` (methods that the GPU offers), `busy` (another process configures the GPU
// between the first question and the first choice), `old` (a release before 1.0), `old_kernel` (the driver cannot sample), `hsa_heard` (another
// tool listens to HSA), `beside` (the runtime's call of HSA has ended when work is seen), `no_request` (nobody can be asked for numbers), `two`
// (GPUs).
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace fake {

// The device's work for one launch.
struct Place {
  uint64_t address;  // in the file of the code object, 0: code of no code object
  int reason;        // why the wave did not issue; -1: it issued
  int count;
};
struct Work {
  const char* kernel;
  uint64_t duration_ns;
  const Place* places;
  size_t place_count;
};

// Loads a code object. The kernels' names are those of its descriptors.
void load_code_object(const char* bytes, size_t size, const char* const* kernels, size_t count);
// A function of the host that stands for a kernel of that code object.
void register_host_function(const void* function, const char* kernel);
void unload_code_object();
int device_count();
// That the calling thread gives work to, from 0.
void use_device(int number);
// The device's part of a launch that is being made.
void dispatch(const Work& work, uint32_t groups, uint32_t group);
void copy(uint64_t bytes);
// Samples that rocprofiler cannot read, and one of no dispatch.
void lose_samples(int count);
void sample_of_nothing();
// Waits for all work.
void wait();

// As HIP's runtime gives the device work: by calls of HSA. `times`: kernels that are written into the queue before the doorbell rings.
void submit(const Work& work, uint32_t groups, uint32_t group, int times = 1);
void submit_copy(uint64_t bytes);
void wait_for_signal();

// A call of HIP or HSA, by its name: rocprofiler hears of it before and after, as by its wrappers in the runtime's table of functions. Where somebody
// listens to the function, the call has a number, and work that is given to the device within it carries that of the innermost one.
class Call {
 public:
  // `words`: its arguments as they lie in rocprofiler's record, those that are passed by value, too.
  explicit Call(const char* name, std::initializer_list<uint64_t> words = {});
  ~Call();
  Call(const Call&) = delete;
  // Its result is returned by the function.
  int ends(int result) {
    payload_.words[result_at_] = 0xABCD'0000'0000'0000 | static_cast<uint32_t>(result);
    return result;
  }
  uint64_t& word(size_t at) { return payload_.words[at]; }

 private:
  struct {
    uint64_t size, words[16];  // the last three of HIP, the last of HSA: the result
  } payload_{};
  size_t result_at_ = 13;
  int kind_, operation_;
  uint64_t number_, outer_, outer_ancestor_;
  uint64_t user_ = 0;
};

// Waits until the tool counts.
void wait_until_counting();

int violations();

}  // namespace fake
