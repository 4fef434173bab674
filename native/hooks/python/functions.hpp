// The functions of `_aiflame`, and what they leave for the bridge.
#pragma once
#include "hooks/python/abi.hpp"

namespace aiflame::bridge {

// All of them, in the module `module`. False: an exception is set.
bool add_functions(Object module) noexcept;

// What is called when layers are new; nullptr: nothing.
Object layers_are_new() noexcept;

}  // namespace aiflame::bridge
