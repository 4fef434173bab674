"""`aiflame demo`: records a small workload, and shows what a profile shows."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

import aiflame
from aiflame.analyze.top import top
from aiflame.analyze.ways import sentence, ways
from aiflame.attribute.transforms import hide_interpreter_noise
from aiflame.attribute.tree import CPU_TIME, GPU_TIME
from aiflame.errors import AiflameError
from aiflame.recorder import RecordOptions, run
from aiflame.render import svg
from aiflame.render.table import print_top

DEFAULT = Path("aiflame-demo.aiflame")
FUNCTIONS = ("matmul_basic", "matmul_blocked", "matmul_tiled")
_ROWS = 10
_PROBE_SECONDS = 20


class DemoDevice(str, Enum):
    CPU = "cpu"
    OPENCL = "opencl"


def demo(
    device: Annotated[DemoDevice | None, typer.Option(help="What multiplies (default: the best that is here).")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The profile; its SVG lies beside it.")] = DEFAULT,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long the workload runs.")] = 6.0,
) -> None:
    """Record a bundled workload, one matrix product in three ways, and show where its time went."""
    chosen = device or _best_device()
    typer.echo(f"Recording {seconds:g} s of one matrix product in three ways ({chosen.value}) ...")
    with _workplace():
        command = [sys.executable, "-m", "aiflame.demo.matmul", "--device", chosen.value, "--seconds", str(seconds)]
        status = run(command, output, RecordOptions(), overwrite=output == DEFAULT).status
        if status != 0:
            raise AiflameError(f"the workload ended with status {status}: what it said stands above")
        _show(output, GPU_TIME.name if chosen is DemoDevice.OPENCL else CPU_TIME.name)


def _show(path: Path, metric: str) -> None:
    profile = aiflame.open(path)
    tree = hide_interpreter_noise(profile.tree(metric, detail="instruction"))
    question = "kernel" if metric == GPU_TIME.name else "function"
    print_top(top(hide_interpreter_noise(profile.tree(metric)), question).head(_ROWS), tree, metric, question)
    picture = path.with_name(path.name.removesuffix(".aiflame") + ".svg")
    svg.write(tree, metric, picture, title="One matrix product in three ways", subtitle=f"{tree.metric(metric).label} of aiflame demo")
    typer.echo(sentence(tree, metric, ways(tree, metric, FUNCTIONS)))
    typer.echo(f"Flame graph: {picture}")
    if metric == GPU_TIME.name:
        typer.echo(f"Instructions that the CPU met: aiflame flame {path} --metric {CPU_TIME.name} --detail instruction")


def _best_device() -> DemoDevice:
    """A GPU where there is one, else the CPU itself. Asked in a process of its own: drivers may do anything when loaded."""
    probe = [sys.executable, "-m", "aiflame.demo.opencl"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        devices = subprocess.run(probe, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False).stdout
        if devices.startswith("gpu\t"):
            return DemoDevice.OPENCL
    return DemoDevice.CPU


@contextlib.contextmanager
def _workplace() -> Iterator[None]:
    """The workload imports no module that happens to lie in the current folder, and PoCL compiles its kernels afresh: when it takes them
    from its cache it warns on stderr about their debug information."""
    with tempfile.TemporaryDirectory(prefix="aiflame-demo-") as cache:
        before = dict(os.environ)
        os.environ.setdefault("POCL_CACHE_DIR", cache)
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
