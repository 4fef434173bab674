// A program whose runtime has no rocprofiler-sdk: it runs as without a profiler. With the SDK beside the runtime, the SDK is loaded if there is a
// tool.
#include <dlfcn.h>
#include <cstdio>

void hip_without_work();

int main() {
  hip_without_work();
  puts(dlopen("librocprofiler-sdk.so", RTLD_LAZY | RTLD_NOLOAD) ? "with the SDK" : "without the SDK");
  return 0;
}
