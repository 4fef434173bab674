// The dlclose loop loads and unloads this library.
static volatile double sink;
extern "C" void spin(long turns) {
  double sum = 0;
  for (long turn = 0; turn < turns; turn++) sum += static_cast<double>(turn) * 0.5;
  sink = sum;
}
