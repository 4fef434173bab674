// Intel's library for profilers, around a program.
#pragma once

// Before Level Zero is initialized; `path`: of the library.
void pti_begin(const char* path);

// Before the first module.
void pti_start(void);

// After the last: a line for each instruction and reason: kernel, offset, reason, samples.
void pti_print(void);
