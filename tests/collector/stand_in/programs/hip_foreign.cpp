// A library with a function of its own that has one of HIP's names.
extern "C" __attribute__((visibility("default"))) int hipInit(unsigned number) { return static_cast<int>(2 * number); }
extern "C" int run(int number) { return hipInit(static_cast<unsigned>(number)) + 2; }
