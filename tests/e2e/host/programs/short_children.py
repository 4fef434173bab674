"""Starts children that live from no time to half a second, three at once. Prints its number of children that failed at SIGTERM: 0."""

import signal
import subprocess
import sys
import threading

LIVES = (0, 0.1, 0.2, 0.3, 0.4, 0.5)
ended, failed = [], []


def start_children(first):
    number = first
    while not ended:
        number += 1
        failed.extend(filter(None, [subprocess.run(["sleep", str(LIVES[number % len(LIVES)])], check=False).returncode]))


signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
threads = [threading.Thread(target=start_children, args=(first,)) for first in (0, 2, 4)]
for thread in threads:
    thread.start()
print("begun", flush=True)
while not ended:
    signal.sigtimedwait([signal.SIGUSR2], 0.1)
for thread in threads:
    thread.join()
print(len(failed))
sys.exit(7)
