// A CUPTI for the fake driver: as strict as the real one is fragile. A call that would crash, hang or lose data there ends the program here, with a
// line that says why.
#pragma once
#include "driver.hpp"

#include <cupti.h>
#include <cupti_pcsampling.h>

#define CUPTI_FUNCTION extern "C" __attribute__((visibility("default"))) CUptiResult CUPTIAPI

namespace fake::cupti {

const Driver& driver();

// False: another copy of CUPTI has the driver.
bool attach();
// At the head of a function that the real library serves only while the driver lives, in the process that started it.
void enter(const char* function);

// As the real one does where another process samples the same device: it calls back nobody any more.
void end_itself();

// Inside one of the client's two buffer functions.
extern thread_local bool in_buffer_function;

// cupti_activity.cpp
void record(const Work& work);
void forget_activity();

// cupti_sampling.cpp
void sample(const Work& work);
void module_loaded(const CUpti_ModuleResourceData& data);
void forget_sampling();
bool samples_on(uint32_t device);
uint64_t crc_of(const void* bytes, size_t size);

// cupti_counters.cpp
void count(const Work& work);
void forget_counters();
bool counts(uint32_t device);

}  // namespace fake::cupti
