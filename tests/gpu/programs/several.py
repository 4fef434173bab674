"""The same kernels on every device: `several.py together` in one process, `several.py apart` in a child process a device.

Device n spins in n + 1 steps of a millisecond, so that each device's time is its own.
"""

from __future__ import annotations

import subprocess
import sys

from driver import Context, devices

MILLISECOND = 1_000_000
ROUNDS = 50


def main(way: str) -> None:
    count = min(devices(), 2)
    if way == "apart":
        children = [subprocess.Popen([sys.executable, __file__, str(ordinal)]) for ordinal in range(count)]
        sys.exit(max(child.wait() for child in children))
    ordinals = range(count) if way == "together" else [int(way)]
    contexts = {ordinal: Context(ordinal) for ordinal in ordinals}
    for _ in range(ROUNDS):
        for ordinal, context in contexts.items():
            context.use()
            context.spin((ordinal + 1) * MILLISECOND)
        for context in contexts.values():
            context.use()
            context.synchronize()
    print("done", way, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
