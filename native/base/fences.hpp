// A memory barrier that costs only one of the two sides.
#pragma once

namespace aiflame {

// When this returns, the caller sees every store that another thread of this process made before it read a value that the caller has changed since.
// The other threads need only compiler barriers: a fence at every launch would cost more than the launch's record.
void let_stores_arrive() noexcept;

}  // namespace aiflame
