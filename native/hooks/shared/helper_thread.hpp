// Threads of our own, in programs that have threads anyway.
#pragma once

namespace aiflame::hooks {

// Starts a detached thread that runs work(nullptr), named `aiflame`, with every signal blocked: the program's signals are none of its
// business. False when there is none to be had.
bool start_helper_thread(void* (*work)(void*)) noexcept;

}  // namespace aiflame::hooks
