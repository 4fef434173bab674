// Functions of libc and of runtimes that the library interposes, under their own names.
#pragma once
#include "base/own_process.hpp"
#include "base/real.hpp"

#define AIFLAME_EXPORT extern "C" __attribute__((visibility("default")))
