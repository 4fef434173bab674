// A library that calls back through `depth` frames more.
extern "C" __attribute__((noinline, noclone)) int call_back(int (*function)(void*), void* argument, int depth) {
  volatile char room[100];
  room[0] = 0;
  int result = depth ? call_back(function, argument, depth - 1) : function(argument);
  return result + room[0];
}
