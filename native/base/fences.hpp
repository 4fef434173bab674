// An order of memory that costs one side nothing.
#pragma once

namespace aiflame {

// Every store that another thread of this process made before it read a value that the caller has changed since is visible to the caller when
// this returns. Those threads order their stores and loads for the compiler alone: a fence at every launch costs more than the launch's record.
void let_stores_arrive() noexcept;

}  // namespace aiflame
