"""`waits_around_steps.py before|inside`: trains a model, and sleeps for a while before its first step, or in each step."""

import os
import sys
import time
from pathlib import Path

import torch

WHERE = sys.argv[1]
STARTED = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
STEPS = 30
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.rand(256, 64)


def computes(seconds):
    """For so much CPU time of its thread, in layers and their gradients."""
    begin = time.thread_time()
    while time.thread_time() - begin < seconds:
        model(batch).sum().backward()


def prepares():
    # For longer than the program's start, which takes long on a busy machine: it is a part of the run, too.
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    while time.clock_gettime(time.CLOCK_BOOTTIME) < now + 6 + (now - STARTED):
        time.sleep(0.1)  # before


def step():
    computes(0.1)
    if WHERE == "inside":
        time.sleep(0.2)  # inside
    optimizer.step()
    optimizer.zero_grad()


if WHERE == "before":
    prepares()
for _ in range(STEPS):
    step()
