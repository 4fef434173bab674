"""The programs of this machine that can be attached to."""

from __future__ import annotations

import os
import re
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.secrets.masking import masked_arguments
from aiflame.recorder.attach.target import target
from aiflame.recorder.place import rank_here
from aiflame.values import dataclass

_PYTHON = re.compile(r"/(libpython|python)(\d\.\d+)[^/]*$", re.MULTILINE)
_CUDA, _TORCH, _JAX = "/libcuda.so", "/libtorch", "/jaxlib/"
_COLLECTOR = "/libaiflame.so"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Program:
    pid: int
    command: tuple[str, ...]
    uses: tuple[str, ...]
    """`Python 3.10`, `CUDA`, `torch`, `JAX`"""
    rank: int | None
    threads: int
    cpu_s: float
    obstacle: str
    """why it cannot be attached to; empty: it can"""


def programs(*, every: bool = False) -> list[Program]:
    """Programs with Python or CUDA, those first that have used most CPU time; with `every`, others too."""
    running = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            program = _program(int(entry.name))
        except OSError:
            continue  # it has ended
        if program is not None and (every or program.uses):
            running.append(program)
    return sorted(running, key=lambda program: -program.cpu_s)


def _program(pid: int) -> Program | None:
    """None: a thread of the kernel, or a process that has ended."""
    folder = Path(f"/proc/{pid}")
    command = (folder / "cmdline").read_bytes()
    if not command:
        return None
    try:
        mapped = (folder / "maps").read_text(errors="replace")
    except PermissionError:
        mapped = ""
    fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
    variables: dict[str, str] = {}
    obstacle = ""
    try:
        process = target(pid)
        os.close(process.pidfd)
        variables = process.variables
    except AiflameError as error:
        obstacle = str(error)
    rank = rank_here(variables)
    return Program(
        pid,
        tuple(masked_arguments([os.fsdecode(word) for word in command.rstrip(b"\0").split(b"\0")])),
        _uses(mapped),
        None if rank is None else rank.rank,
        int(fields[17]),
        (int(fields[11]) + int(fields[12])) / _TICKS,
        obstacle,
    )


def _uses(mapped: str) -> tuple[str, ...]:
    python = _PYTHON.search(mapped)
    named = (("CUDA", _CUDA), ("torch", _TORCH), ("JAX", _JAX), ("recorded", _COLLECTOR))
    return (*((f"Python {python[2]}",) if python else ()), *(name for name, part in named if part in mapped))
