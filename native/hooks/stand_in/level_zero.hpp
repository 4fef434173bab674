// Level Zero: calls of the program (hooks/stand_in), and the commands that its devices executed.
#pragma once

namespace aiflame::level_zero {

void forget_rows() noexcept;
void after_fork_child() noexcept;

}  // namespace aiflame::level_zero
