// NVRTC for tests, beside cuda_driver.c: it compiles nothing, and wants to be asked as the real one must be.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kCubin[] = "a\0cubin";
static int program;
static char log_text[4096] = "";

static int wrong(int is_wrong) { return is_wrong ? 3 : 0; }

const char* nvrtcGetErrorString(int error) { return error == 6 ? "does not compile, says the test" : "wrong argument, says the test"; }

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 1;
  return 0;
}

int nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return 0;
}

int nvrtcGetSupportedArchs(int* architectures) {
  architectures[0] = 80;
  architectures[1] = 90;
  return 0;
}

// Knows the file by its absolute path, whose text it has been given.
int nvrtcCreateProgram(void** made, const char* source, const char* name, int headers, const char* const* texts, const char* const* names) {
  char* there = malloc(1 << 20);
  FILE* file = fopen(name, "r");
  size_t size = file ? fread(there, 1, (1 << 20) - 1, file) : 0;
  there[size] = 0;
  *made = &program;
  return wrong(name[0] != '/' || strcmp(source, there) != 0 || headers || texts || names);
}

int nvrtcCompileProgram(void* asked, int count, const char* const* options) {
  int architecture = 0, lines = 0;
  for (int i = 0; i < count; i++) {
    architecture |= strcmp(options[i], "--gpu-architecture=sm_90") == 0;
    lines |= strcmp(options[i], "-lineinfo") == 0;
  }
  strcpy(log_text, "line 3 is wrong");
  return getenv("DOES_NOT_COMPILE") ? 6 : wrong(asked != &program || !architecture || !lines);
}

int nvrtcDestroyProgram(void** asked) { return wrong(*asked != &program); }

int nvrtcGetProgramLogSize(void* asked, size_t* size) {
  *size = strlen(log_text) + 1;
  return wrong(asked != &program);
}

int nvrtcGetProgramLog(void* asked, char* text) {
  strcpy(text, log_text);
  return wrong(asked != &program);
}

int nvrtcGetCUBINSize(void* asked, size_t* size) {
  *size = sizeof kCubin;
  return wrong(asked != &program);
}

int nvrtcGetCUBIN(void* asked, char* cubin) {
  memcpy(cubin, kCubin, sizeof kCubin);
  return wrong(asked != &program);
}
