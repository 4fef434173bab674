// Functions of HIP, as programs see them.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
int hipInit(unsigned);
int hipMemcpy(void*, const void*, size_t, int);
int hipMemset2D(void*, size_t, int, size_t, size_t);
int hipStreamQuery(void*);
const char* hipGetErrorName(int);
int hipDeviceSynchronize();
int hipFree(void*);
}
