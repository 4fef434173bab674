"""Two processes that use one device at once: prints how many kernels each has launched. Needs torch alone."""

from __future__ import annotations

import subprocess
import sys
import time

import torch


def work(seconds: float) -> int:
    x, launched, end = torch.ones(1 << 20, device="cuda"), 1, time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(100):
            x.add_(1)
        torch.cuda.synchronize()
        launched += 100
    return launched


def main() -> None:
    if len(sys.argv) > 1:
        print(work(2))
        return
    first = work(0.5)
    with subprocess.Popen([sys.executable, __file__, "other"], stdout=subprocess.PIPE, text=True) as other:
        while other.poll() is None:
            first += work(0.2)
        assert other.stdout is not None
        print(first, other.stdout.read())
    sys.exit(other.returncode)


if __name__ == "__main__":
    main()
