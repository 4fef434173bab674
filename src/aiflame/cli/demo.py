"""`aiflame demo`: records a small workload, and shows an example of a profile."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path

import aiflame
from aiflame.analyze.demo_comparison import sentence, ways
from aiflame.analyze.top import top
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.tree import CPU_TIME, GPU_TIME
from aiflame.cli.support.arguments import add_json, add_output
from aiflame.cli.support.parser import Parser, number
from aiflame.cli.support.say import say, say_json
from aiflame.errors import AiflameError
from aiflame.json_text import json_text, schema
from aiflame.recorder import RecordOptions, place_of
from aiflame.recorder import run as record
from aiflame.render.flame_svg import svg
from aiflame.render.terminal.top_table import print_top

DESCRIPTION = (
    "What does a profile show? Records a bundled workload, one matrix product in three ways, by CUDA, Level Zero, OpenCL or on the CPU,"
    " and shows where its time went."
)
EXAMPLES = ("aiflame demo", "aiflame demo --device cpu --seconds 2")
DEFAULT = Path("aiflame-demo.aiflame")
FUNCTIONS = ("matmul_basic", "matmul_blocked", "matmul_tiled")
_ROWS = 10
_SECONDS = 6.0
_PROBE_SECONDS = 60


class DemoDevice(str, Enum):
    CUDA = "cuda"
    ZE = "ze"
    OPENCL = "opencl"
    CPU = "cpu"


_LABELS = {DemoDevice.CUDA: "a GPU by CUDA", DemoDevice.ZE: "a GPU by Level Zero", DemoDevice.OPENCL: "OpenCL", DemoDevice.CPU: "the CPU"}


def add_arguments(parser: Parser) -> None:
    devices = [device.value for device in DemoDevice]
    parser.add_choice(
        "--device", choices=devices, metavar="DEVICE", help=f"{', '.join(devices)} (default: the first of these that works here)"
    )
    add_output(parser, str(DEFAULT), "the profile; its flame graph is written beside it")
    add_json(parser)
    parser.add_argument(
        "--seconds", type=number(0.1, of=float), default=_SECONDS, metavar="S", help=f"how long the workload runs (default: {_SECONDS:g})"
    )


def run(options: Namespace) -> None:
    output: Path = options.output
    tell = _nothing if options.json else say
    chosen = DemoDevice(options.device) if options.device else _best_device(tell)
    tell(f"Recording {options.seconds:g} s of one matrix product in three ways on {_LABELS[chosen]} ...")
    with clean_environment():
        command = [sys.executable, "-m", "aiflame.demo.matmul", "--device", chosen.value, "--seconds", str(options.seconds)]
        with _stdout_as_stderr() if options.json else contextlib.nullcontext():
            status = record(command, place_of(output, command, None), options_for(chosen), overwrite=output == DEFAULT).status
        if status != 0:
            raise AiflameError(f"the workload ended with status {status}: see its messages above")
        _show(output, chosen, as_json=options.json)


def options_for(device: DemoDevice) -> RecordOptions:
    """Work of Level Zero is seen where its calls are traced."""
    return RecordOptions(trace=device.value) if device is DemoDevice.ZE else RecordOptions()


def _nothing(text: str) -> None:
    """Prints nothing: stdout is for one document."""


def _show(path: Path, chosen: DemoDevice, *, as_json: bool) -> None:
    metric, question = (CPU_TIME.name, "function") if chosen is DemoDevice.CPU else (GPU_TIME.name, "kernel")
    profile = aiflame.open(path)
    tree = without_idle(hide_interpreter_noise(profile.tree(metric, detail="instruction")))
    answer = top(without_idle(hide_interpreter_noise(profile.tree(metric))), question).head(_ROWS)
    picture = path.with_name(path.name.removesuffix(".aiflame") + ".svg")
    svg.write(tree, metric, picture, title="One matrix product in three ways", subtitle=f"aiflame demo: {tree.metric(metric).label}")
    if as_json:
        said = sentence(tree, metric, ways(tree, metric, FUNCTIONS))
        facts = {"schema": schema("demo"), "device": chosen.value, "profile": str(path), "flame_graph": str(picture), "sentence": said}
        say_json(json_text(facts, indent=1))
        return
    print_top(answer, tree, metric, question)
    say(sentence(tree, metric, ways(tree, metric, FUNCTIONS)))
    say(f"Flame graph: {picture}")
    say(f"The whole report, in a browser: aiflame open {path}")
    if chosen in (DemoDevice.CUDA, DemoDevice.ZE):
        say(f"Source and instructions, side by side: aiflame annotate {path} {FUNCTIONS[0]}")
    elif chosen is DemoDevice.OPENCL:
        say(f"Sampled CPU instructions: aiflame flame {path} --metric {CPU_TIME.name} --detail instruction")


def _best_device(tell: Callable[[str], None]) -> DemoDevice:
    """The first device that can run the workload. Prints why the devices before it cannot."""
    for device in (DemoDevice.CUDA, DemoDevice.ZE, DemoDevice.OPENCL):
        reason = refusal(device)
        if not reason:
            return device
        tell(f"Not on {_LABELS[device]}: {reason}")
    return DemoDevice.CPU


def refusal(device: DemoDevice) -> str:
    """Why the device cannot run the workload, "" if it can: tries a tiny run in a child process, since drivers may crash."""
    command = [sys.executable, "-m", "aiflame.demo.matmul", "--device", device.value, "--size", "128", "--seconds", "0"]
    try:
        with clean_environment():
            child = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    messages = child.stderr.strip().splitlines()
    return "" if child.returncode == 0 else messages[-1] if messages else f"a first try ended with status {child.returncode}"


@contextlib.contextmanager
def _stdout_as_stderr() -> Iterator[None]:
    """Redirects the workload's own lines to stderr: stdout is for one document."""
    before = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)


@contextlib.contextmanager
def clean_environment() -> Iterator[None]:
    """Keeps the workload from importing modules of the current folder, and gives PoCL an empty cache: for cached kernels it prints warnings
    about their debug information."""
    with tempfile.TemporaryDirectory(prefix="aiflame-demo-") as cache:
        before = dict(os.environ)
        os.environ.setdefault("POCL_CACHE_DIR", cache)
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
