"""`many_calls.py CALLS`: calls a torch model so often, and prints how many bytes of memory the last nine tenths of the calls took."""

import sys
from collections import deque
from itertools import repeat
from pathlib import Path

import torch


class Model(torch.nn.Module):
    def forward(self, tokens):
        return tokens


def resident():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


calls, model, tokens = int(sys.argv[1]), Model(), torch.ones(1, 1, dtype=torch.int64)
deque(map(model, repeat(tokens, calls // 10)), maxlen=0)
before = resident()
deque(map(model, repeat(tokens, calls - calls // 10)), maxlen=0)
print(resident() - before)
