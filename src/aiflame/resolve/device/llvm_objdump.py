"""Instructions of AMD's code objects from LLVM's disassembler: ROCm's own copy, or a Linux distribution's.

A copy that is older than a GPU does not know its instructions. It then fails, crashes, or warns and guesses; the next copy is tried.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aiflame.resolve.device.hsaco import Function, Hsaco
from aiflame.values import dataclass, field

_NAME = "llvm-objdump"
_WHOLE_RUN_S = 600.0
_ONE_RUN_S = 30.0
_BYTES_A_SECOND = 64 << 10
"""The lowest speed in bytes of code a second."""
_INSTRUCTION = re.compile(r"^\t(?P<text>.+?) *// (?P<address>[0-9A-F]{8,16}): [0-9A-F ]+?(?: (?P<target><.+>))?$", re.MULTILINE)
_UNKNOWN = re.compile(r"not a recognized processor|unable to get target|can't find target|is not a registered target", re.IGNORECASE)

Listing = Mapping[int, str]
"""Address → instruction, with the place to which it jumps: `s_branch 56 <matmul+0x100>`."""


@dataclass(slots=True)
class Code:
    """A code object, and those of its functions that are to be disassembled."""

    hsaco: Hsaco
    functions: list[Function] = field(default_factory=list)


def tools() -> list[Path]:
    """All copies on this machine, in the order in which they are tried."""
    return list(dict.fromkeys(path.resolve() for path in _candidates() if path.is_file() and os.access(path, os.X_OK)))


def disassemble(
    codes: Sequence[Code], tools: Sequence[Path], progress: Callable[[float], None] = lambda share: None, limit_s: float = _WHOLE_RUN_S
) -> list[Listing]:
    """The instructions of each code object's functions; functions that no tool could read are missing."""
    listings: list[dict[int, str]] = [{} for _ in codes]
    deadline = time.monotonic() + limit_s
    with tempfile.TemporaryDirectory(prefix="aiflame-") as folder, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, code in enumerate(codes):
            file = Path(folder) / f"{number}.hsaco"
            file.write_bytes(code.hsaco.content)
            left = code.functions
            for tool in tools:
                run = _Run(tool, file, deadline)
                results = list(pool.map(run, left))
                for result in results:
                    listings[number].update(result)
                left = [function for function, result in zip(left, results, strict=True) if not result]
                if not left:
                    break
            file.unlink()
            progress((number + 1) / len(codes))
    return list(listings)


def _candidates() -> Iterator[Path]:
    variables = ("ROCM_PATH", "ROCM_HOME", "HIP_PATH")
    roots = [Path(os.environ[variable]) for variable in variables if os.environ.get(variable)]
    roots += [Path("/opt/rocm"), *sorted(Path("/opt").glob("rocm-*"), key=_version, reverse=True)]
    roots += [Path(folder) / "_rocm_sdk_devel" for folder in sys.path if folder]
    for root in roots:
        yield from (root / "lib/llvm/bin" / _NAME, root / "llvm/bin" / _NAME)
    if first := shutil.which(_NAME):
        yield Path(first)
    yield from (folder / "bin" / _NAME for folder in sorted(Path("/usr/lib").glob("llvm-*"), key=_version, reverse=True))


def _version(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d{1,9}", path.name)]


class _Run:
    """One copy of llvm-objdump, run on functions of one code object from several threads."""

    def __init__(self, tool: Path, file: Path, deadline: float) -> None:
        self._tool, self._file, self._deadline = tool, file, deadline
        self._refused = False
        # Inside a recorded program, our own child processes are not to be recorded.
        self._environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "AIFLAME_PROFILE")}

    def __call__(self, function: Function) -> Listing:
        if self._refused:
            return {}
        limit = min(_ONE_RUN_S + function.size / _BYTES_A_SECOND, self._deadline - time.monotonic())
        place = [f"--start-address={function.start:#x}", f"--stop-address={function.start + function.size:#x}"]
        command = [str(self._tool), "-d", *place, str(self._file)]
        try:
            result = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=max(limit, 0), env=self._environment, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return {}
        if _UNKNOWN.search(result.stderr.decode("utf-8", "replace")):
            self._refused = True
        if self._refused or result.returncode != 0:
            return {}
        return _read(result.stdout.decode("utf-8", "replace"), function)


def _read(text: str, function: Function) -> Listing:
    listing = {}
    for match in _INSTRUCTION.finditer(text):
        address = int(match["address"], 16)
        if function.covers(address):
            listing[address] = f"{match['text']} {match['target']}" if match["target"] else match["text"]
    return listing
