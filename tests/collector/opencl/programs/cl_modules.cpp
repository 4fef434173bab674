// A program of OpenCL without a loader or driver: it gives the layer in the collector a table of functions, and calls those that it gets back.
//
// cl_modules VENDOR FILE FILE: makes a program with the code of the first file, two kernels of it, and releases it; then another one that gets the
// same handle, with the code of the second, and builds that one anew. Prints how often it was asked for the code.
#include <dlfcn.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using Handle = void*;

static void expect(bool right, const char* what) {
  if (right) return;
  fprintf(stderr, "not so: %s\n", what);
  abort();
}

static Handle const device = reinterpret_cast<Handle>(0x10), program = reinterpret_cast<Handle>(0x20), kernel = reinterpret_cast<Handle>(0x30);
static uint32_t vendor;
static bool built = false, living = false;
static int asked = 0;
static std::vector<uint8_t> code;

static std::vector<uint8_t> file(const char* name) {
  FILE* opened = fopen(name, "rb");
  expect(opened, name);
  std::vector<uint8_t> bytes(1 << 20);
  bytes.resize(fread(bytes.data(), 1, bytes.size(), opened));
  fclose(opened);
  return bytes;
}

template <class Value>
static int32_t answer(const Value& its, size_t room, void* value) {
  if (room < sizeof its) return -30;
  memcpy(value, &its, sizeof its);
  return 0;
}

static int32_t device_info(Handle of, uint32_t name, size_t room, void* value, size_t*) {
  expect(of == device, "the device");
  const uint32_t pci[4] = {0, 3, 0x1d, 1};
  switch (name) {
    case 0x1000:
      return answer(uint64_t{4}, room, value);
    case 0x1001:
      return answer(vendor, room, value);
    case 0x102B:
      return snprintf(static_cast<char*>(value), room, "A GPU"), 0;
    case 0x410F:
      memcpy(value, pci, sizeof pci);
      return 0;
    default:
      return -30;
  }
}

static int32_t program_info(Handle of, uint32_t name, size_t room, void* value, size_t*) {
  expect(of == program && living, "a program that is gone");
  if (name == 0x1162) return answer(uint32_t{1}, room, value);
  if (name == 0x1163) return answer(device, room, value);
  expect(vendor == 0x8086 && built, "only Intel's programs have code for debuggers, when they are built");
  if (name == 0x4101) return answer(code.size(), room, value);
  expect(name == 0x4100 && room == sizeof(void*), "a property that does not exist");
  memcpy(*static_cast<uint8_t**>(value), code.data(), code.size());
  asked++;
  return 0;
}

static int32_t build(Handle, uint32_t, const Handle*, const char*, void (*)(Handle, void*), void*) { return built = true, 0; }
static Handle create_kernel(Handle, const char*, int32_t* error) { return *error = 0, kernel; }
static int32_t create_kernels(Handle, uint32_t count, Handle* kernels, uint32_t* made) {
  if (kernels) kernels[0] = kernel;
  if (made) *made = 1;
  return count || !kernels ? 0 : -30;
}
static int32_t release(Handle) { return living = built = false, 0; }

int main(int, char** arguments) {
  vendor = static_cast<uint32_t>(strtoul(arguments[1], nullptr, 16));
  const void* table[150] = {};
  table[3] = reinterpret_cast<const void*>(device_info);
  table[29] = reinterpret_cast<const void*>(release);
  table[30] = reinterpret_cast<const void*>(build);
  table[32] = reinterpret_cast<const void*>(program_info);
  table[34] = reinterpret_cast<const void*>(create_kernel);
  table[35] = reinterpret_cast<const void*>(create_kernels);
  const void* const* ours = table;
  uint32_t count = 0;
  auto init = reinterpret_cast<int32_t (*)(uint32_t, const void* const*, uint32_t*, const void* const**)>(dlsym(RTLD_DEFAULT, "clInitLayer"));
  expect(!init || init(150, table, &count, &ours) == 0, "the layer comes up");
  auto call_build = reinterpret_cast<decltype(&build)>(const_cast<void*>(ours[30]));
  auto call_kernel = reinterpret_cast<decltype(&create_kernel)>(const_cast<void*>(ours[34]));
  auto call_kernels = reinterpret_cast<decltype(&create_kernels)>(const_cast<void*>(ours[35]));
  auto call_release = reinterpret_cast<decltype(&release)>(const_cast<void*>(ours[29]));
  int32_t error;
  uint32_t made;
  Handle kernels[1];

  code = file(arguments[2]);
  living = true;
  call_build(program, 0, nullptr, "", nullptr, nullptr);
  expect(call_kernels(program, 0, nullptr, &made) == 0 && asked == 0, "a count makes no kernel");
  call_kernel(program, "matmul", &error);
  call_kernel(program, "scale", &error);
  call_release(program);

  code = file(arguments[3]);
  living = true;
  for (int turn = 0; turn < 2; turn++) {
    call_build(program, 0, nullptr, "", nullptr, nullptr);
    expect(call_kernels(program, 1, kernels, &made) == 0, "all kernels");
  }
  call_release(program);
  printf("%d\n", asked);
}
