"""holds() keeps the GIL for two seconds, asleep, while two threads in contends() want it. Prints how long it kept it, in ns."""

import ctypes
import threading
import time

keeps_the_gil = ctypes.PyDLL(None)  # unlike CDLL, it does not release it around a call
turns = [0, 0]
over = False


def contends(number):
    while not over:
        turns[number] += 1


def holds():
    global over
    while not all(turns):
        time.sleep(0.001)
    begin = time.monotonic_ns()
    keeps_the_gil.usleep(2_000_000)
    took = time.monotonic_ns() - begin
    over = True
    return took


threads = [threading.Thread(target=contends, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
held = holds()
for thread in threads:
    thread.join()
print(held)
