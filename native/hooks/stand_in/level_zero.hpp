// Level Zero: calls of the program (hooks/stand_in), and what its devices did in between.
#pragma once

namespace aiflame::level_zero {

void forget_rows() noexcept;
void after_fork_child() noexcept;

}  // namespace aiflame::level_zero
