"""`planted_training.py FAULT [TRACE]`: trains a small model on the CPU with one fault, and writes a trace of torch.profiler if asked."""

import contextlib
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 25


class Items(Dataset):
    def __init__(self, slow):
        self.slow = slow

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        if self.slow:
            return torch.tensor([number * number % 7 / 7 for number in range(20_000)][:128])  # planted
        return torch.full((128,), index % 7 / 7)


class Block(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.up, self.down = nn.Linear(128, inner), nn.Linear(inner, 128)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Model(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.blocks = nn.ModuleList(Block(8192 if wide and number == 2 else 512) for number in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def train(fault, after_step):
    model = Model(fault == "layer")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batches = iter(DataLoader(Items(fault == "data"), batch_size=8))
    for _ in range(STEPS):
        batch = next(batches)
        for _ in range(20 if fault == "layer" else 2):
            loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if fault == "sleep":
            time.sleep(0.05)  # planted
        after_step()


def main():
    torch.set_num_threads(1)
    fault, *trace = sys.argv[1:]
    with contextlib.ExitStack() as stack:
        after_step = lambda: None  # noqa: E731
        if trace:
            on_cpu = [torch.profiler.ProfilerActivity.CPU]
            profile = torch.profiler.profile(activities=on_cpu, with_stack=True, with_modules=True, record_shapes=True)
            after_step = stack.enter_context(profile).step
        train(fault, after_step)
    if trace:
        profile.export_chrome_trace(trace[0])


main()
