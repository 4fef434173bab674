"""Sealed profiles of any size, made up: as a transformer's training on a GPU leaves them behind, without a GPU and without a recording.

    python benchmarks/profiles/synthetic_profile.py OUT.aiflame --kernels 1000000 [--stacks 2000] [--cpu-samples 0]
        [--gpu-samples 0] [--marked]

Every step waits for data, copies it to the device, runs all layers forwards and backwards (autograd's thread, gradients reduced on a second
stream), the optimizer, and waits for the loss. Steps differ in length, each tenth waits long for its data. Stacks beyond those that one
step needs are those of other callers of the model. The same arguments give the same profile.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
from synthetic_program import program
from synthetic_run import BEGIN_NS, Size, TrainingRun
from synthetic_tables import Tables

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Host, Meta


def write(path: Path, size: Size) -> None:
    """Makes the profile; one that is there is replaced."""
    shutil.rmtree(path, ignore_errors=True)
    tables = Tables(path / "tables")
    run = TrainingRun(size, program(size.layers))
    run.facts(tables)
    for first in range(0, run.steps, run.steps_a_chunk):
        run.work(tables, np.arange(first, min(first + run.steps_a_chunk, run.steps)))
    run.samples(tables)
    tables.finish()
    began, ended = (Clocks(at, at, at + 1_790_000_000_000_000_000) for at in (BEGIN_NS, run.end_ns))
    host = Host(name="synthetic", cpu="made up", cores=16)
    Meta(command=("python3", "train.py"), host=host, started=began, ended=ended, exit_status=0, complete=True).write(Folder.open(path))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--kernels", type=int, default=100_000)
    parser.add_argument("--stacks", type=int, default=2000)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--cpu-samples", type=int, default=0)
    parser.add_argument("--gpu-samples", type=int, default=0)
    parser.add_argument("--marked", action="store_true")
    chosen = parser.parse_args()
    write(
        chosen.path,
        Size(chosen.kernels, chosen.stacks, chosen.layers, chosen.cpu_samples, chosen.gpu_samples, chosen.marked),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
