"""Launches small kernels (`launch`), large ones (`busy`), or first small and then large ones (`both`) for SECONDS each; prints how many."""

from __future__ import annotations

import sys
import threading
import time

import torch

WHAT, SECONDS, THREADS = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
counts = [0] * THREADS


def launch(number: int, size: int, seconds: float) -> None:
    with torch.cuda.stream(torch.cuda.Stream()):
        numbers = torch.zeros(size, device="cuda")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(50):
                numbers.add_(1.0)
            counts[number] += 50
        torch.cuda.current_stream().synchronize()
        assert numbers[0].item() <= counts[number]


for size in {"launch": (32,), "busy": (1 << 28,), "both": (32, 1 << 28)}[WHAT]:
    threads = [threading.Thread(target=launch, args=(number, size, SECONDS)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(sum(counts))
