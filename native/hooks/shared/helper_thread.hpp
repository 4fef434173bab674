// Threads of our own, in programs that have threads anyway.
#pragma once

namespace aiflame::hooks {

// Starts a detached thread, named `aiflame`, that runs work(nullptr). It blocks every signal: signals of the program must reach the program's
// threads. False if the thread cannot be made.
bool start_helper_thread(void* (*work)(void*)) noexcept;

}  // namespace aiflame::hooks
