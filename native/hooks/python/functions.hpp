// The functions of `_aiflame`, and the objects that they store for the bridge.
#pragma once
#include "hooks/python/abi.hpp"

#include <span>

namespace aiflame::bridge {

// A function as Python calls it: positional arguments first, then keyword arguments.
using Function = Object(Object module, const Object* given, intptr_t count, Object keywords) noexcept;
Method method(const char* name, Function* function) noexcept;

// Adds all functions to `module`. False: an exception is set.
bool add_functions(Object module) noexcept;
// Adds `methods`, whose addresses Python keeps.
bool add_functions(Object module, std::span<Method> methods) noexcept;
// Adds the functions of other folders (hooks/all_hooks.cpp).
bool add_functions_of_others(Object module) noexcept;

// The function to call when there are new layers; nullptr: none.
Object layers_are_new() noexcept;

}  // namespace aiflame::bridge
