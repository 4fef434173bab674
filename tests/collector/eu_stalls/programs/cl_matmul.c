// Multiplies matrices on a device of OpenCL, whose driver compiles the source: cl_matmul SOURCE TIMES. first() runs three times as many groups
// as second() does.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static cl_command_queue queue;

static void check(const char* call, cl_int result) {
  if (result == CL_SUCCESS) return;
  fprintf(stderr, "%s: %d\n", call, result);
  exit(1);
}
#define CHECK(call) check(#call, call)

__attribute__((noinline)) void launch(cl_kernel kernel, size_t groups) {
  size_t items[2] = {groups * 16, 16}, group[2] = {16, 16};
  CHECK(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, items, group, 0, NULL, NULL));
  CHECK(clFinish(queue));
}

__attribute__((noinline)) void first(cl_kernel kernel) {
  launch(kernel, 30);
  __asm__ volatile("");
}

__attribute__((noinline)) void second(cl_kernel kernel) {
  launch(kernel, 10);
  __asm__ volatile("");
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  static char source[1 << 16];
  const char* text = source;
  FILE* file = fopen(arguments[1], "rb");
  if (!file || !fread(source, 1, sizeof source - 1, file)) return 2;
  fclose(file);
  cl_platform_id platform;
  cl_device_id device;
  cl_int result;
  CHECK(clGetPlatformIDs(1, &platform, NULL));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL));
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &result);
  check("clCreateContext", result);
  cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &result);
  check("clCreateProgramWithSource", result);
  CHECK(clBuildProgram(program, 1, &device, "-g", NULL, NULL));
  cl_kernel kernel = clCreateKernel(program, "matmul", &result);
  check("clCreateKernel", result);
  queue = clCreateCommandQueueWithProperties(context, device, NULL, &result);
  check("clCreateCommandQueueWithProperties", result);
  cl_mem matrix = clCreateBuffer(context, CL_MEM_READ_WRITE, 1 << 20, NULL, &result);
  check("clCreateBuffer", result);
  int size = 64;
  for (cl_uint at = 0; at < 3; at++) CHECK(clSetKernelArg(kernel, at, sizeof matrix, &matrix));
  CHECK(clSetKernelArg(kernel, 3, sizeof size, &size));
  for (int times = atoi(arguments[2]); times > 0; times--) {
    first(kernel);
    second(kernel);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  return 0;
}
