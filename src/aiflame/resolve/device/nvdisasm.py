"""SASS from NVIDIA's disassembler: no other program knows the instructions of its GPUs."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from aiflame.resolve.device.cubin_cut import cut, identity, name_of
from aiflame.values import dataclass

_WHOLE_RUN_S = 600.0
_ONE_RUN_S = 30.0
_BYTES_A_SECOND = 16 << 10
"""The lowest speed in bytes of code a second: 400 KB a second were measured, with a start of 0.5 s."""
_BATCH_BYTES = (64 << 10, 512 << 10)
_BATCH_FUNCTIONS = 200
_RETRIES = 32
"""How many more times a tool is run to find the functions on which it fails."""
_KEPT_BYTES = 256 << 10
"""The most code whose listings are cached, in some ten megabytes of memory."""

_SECTION = re.compile(r"\s*\.section\s+\.text\.(f\d+)\b")
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,8})\*/\s+(.*?)\s*;?\s*$")
_LABEL = re.compile(r"(\.L_x_\d+):")
_TARGET = re.compile(r"`\((\.L_x_\d+|f\d+)\)")
_SPACES = re.compile(r"\s{2,}")
_HOLE = "\0"


@dataclass(frozen=True, slots=True)
class Code:
    """A section of code, to be disassembled."""

    header: bytes
    """The first 64 bytes of its cubin."""
    code: bytes


@dataclass(frozen=True, slots=True)
class Instruction:
    offset: int
    """Its offset in its section."""
    _text: str
    target: int | None = None
    """The offset of the place to which it jumps, or that it calls."""

    def text(self, target: str) -> str:
        """The readable text, with `target` as its target."""
        return self._text.replace(_HOLE, target)


Listing = list[Instruction]


class _Kept:
    """A cache of the last listings, for the next profile: ranks of a job, and runs before and after a change, have most kernels in common,
    and starting the tool takes longer than disassembling a kernel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listings: dict[tuple[Path, Code], Listing] = {}
        self._bytes = 0

    def get(self, tool: Path, code: Code) -> Listing | None:
        with self._lock:
            return self._listings.get((tool, code))

    def keep(self, tool: Path, code: Code, listing: Listing) -> None:
        size = len(code.code)
        with self._lock:
            if size > _KEPT_BYTES or (tool, code) in self._listings:
                return
            self._listings[tool, code] = listing
            self._bytes += size
            while self._bytes > _KEPT_BYTES:
                oldest = next(iter(self._listings))
                del self._listings[oldest]
                self._bytes -= len(oldest[1].code)


_KEPT = _Kept()

NO_TOOL = (
    "nvdisasm was not found: samples in GPU kernels have source lines but no instructions; "
    "`pip install nvidia-cuda-nvdisasm`, then open the profile again"
)


def tools() -> list[Path]:
    """All copies of nvdisasm on this machine, in the order in which they are tried: the wheel's, the toolkit's, Triton's."""
    paths = {path.resolve(): path for path in reversed(list(_candidates())) if path.is_file() and os.access(path, os.X_OK)}
    return list(reversed(paths.values()))


def disassemble(
    codes: Sequence[Code], tools: Sequence[Path], progress: Callable[[float], None] = lambda share: None, limit_s: float = _WHOLE_RUN_S
) -> dict[int, Listing]:
    """The instructions of each section, by its place in `codes`; sections that no tool could read are missing."""
    listings: dict[int, Listing] = {}
    workers = len(os.sched_getaffinity(0))
    deadline = time.monotonic() + limit_s
    with tempfile.TemporaryDirectory(prefix="aiflame-") as folder, ThreadPoolExecutor(workers) as pool:
        for tool in tools:
            left = [number for number in range(len(codes)) if number not in listings]
            kept = {number: _KEPT.get(tool, codes[number]) for number in left}
            listings.update({number: listing for number, listing in kept.items() if listing is not None})
            run = _Tool(tool, Path(folder), codes, deadline)
            batches = _batches(codes, [number for number in left if kept[number] is None], workers)
            for future in as_completed([pool.submit(run, batch) for batch in batches]):
                for number, listing in future.result().items():
                    listings[number] = listing
                    _KEPT.keep(tool, codes[number], listing)
                progress(len(listings) / len(codes))
    return listings


def _candidates() -> Iterator[Path]:
    for folder in sys.path:
        if folder:
            yield from sorted(Path(folder).glob("nvidia/*/bin/nvdisasm"), reverse=True)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if root := os.environ.get(variable):
            yield Path(root) / "bin/nvdisasm"
    if path := shutil.which("nvdisasm"):
        yield Path(path)
    yield Path("/usr/local/cuda/bin/nvdisasm")
    yield from sorted(Path("/usr/local").glob("cuda-*/bin/nvdisasm"), reverse=True)
    try:
        triton = importlib.util.find_spec("triton")
    except (ImportError, ValueError):
        return
    for folder in (triton.submodule_search_locations or ()) if triton else ():
        yield Path(folder) / "backends/nvidia/bin/nvdisasm"


def _batches(codes: Sequence[Code], numbers: Sequence[int], workers: int) -> Iterator[list[int]]:
    """Sections that go into one file: enough to be worth a start of the tool, but few enough that every core has some."""
    total = sum(len(codes[number].code) for number in numbers)
    most = min(max(total // (2 * workers), _BATCH_BYTES[0]), _BATCH_BYTES[1])
    batch: list[int] = []
    size = 0
    for number in sorted(numbers, key=lambda number: identity(codes[number].header)):
        full = size >= most or len(batch) >= _BATCH_FUNCTIONS
        if batch and (full or identity(codes[number].header) != identity(codes[batch[0]].header)):
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += len(codes[number].code)
    if batch:
        yield batch


class _Tool:
    """One copy of nvdisasm, run on batches from several threads."""

    def __init__(self, path: Path, folder: Path, codes: Sequence[Code], deadline: float) -> None:
        self._path, self._folder, self._codes, self._deadline = path, folder, codes, deadline
        self._retries = _RETRIES
        # Inside a recorded program, our own child processes are not to be recorded.
        self._environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "AIFLAME_PROFILE")}

    def __call__(self, batch: list[int]) -> dict[int, Listing]:
        """If the tool fails on a function, those behind it fail, too: then each half is tried alone."""
        whole, text = self._run(batch)
        by_name = _read(text, whole or len(batch) == 1)
        listings = {number: by_name[name_of(place)] for place, number in enumerate(batch) if by_name.get(name_of(place))}
        left = [number for number in batch if number not in listings]
        if left and len(batch) > 1 and self._retries > 0:
            self._retries -= 2
            middle = (len(left) + 1) // 2
            for half in (left[:middle], left[middle:]):
                listings.update(self(half) if half else {})
        return listings

    def _run(self, batch: list[int]) -> tuple[bool, str]:
        """True if it succeeded, and its output."""
        size = sum(len(self._codes[number].code) for number in batch)
        limit = min(_ONE_RUN_S + size / _BYTES_A_SECOND, self._deadline - time.monotonic())
        file = self._folder / f"{self._path.parent.parent.name}-{batch[0]}-{len(batch)}.cubin"
        try:
            file.write_bytes(cut(self._codes[batch[0]].header, [self._codes[number].code for number in batch]))
            # -ndf: no analysis of the data flow, which serves the tool's annotations and may fail.
            command = [str(self._path), "-c", "-ndf", str(file)]
            result = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=max(limit, 0), env=self._environment, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False, ""
        finally:
            file.unlink(missing_ok=True)
        return result.returncode == 0, result.stdout.decode("utf-8", "replace")


def _read(text: str, whole: bool) -> dict[str, Listing]:
    """Name → instructions. If a listing broke off, its last section is left out."""
    listings: dict[str, Listing] = {}
    labels: dict[tuple[str, str], int] = {}
    waiting: list[str] = []
    name = ""
    for line in text.splitlines():
        if match := _INSTRUCTION.match(line):
            offset = int(match[1], 16)
            labels.update(((name, label), offset) for label in waiting)
            waiting.clear()
            if name:
                listings[name].append(Instruction(offset, match[2]))
        elif match := _LABEL.match(line):
            waiting.append(match[1])
        elif match := _SECTION.match(line):
            name = match[1]
            listings[name] = []
            waiting.clear()
    if not whole:
        listings.pop(name, None)
    return {name: [_aimed(one, name, labels) for one in listing] for name, listing in listings.items()}


def _aimed(one: Instruction, name: str, labels: dict[tuple[str, str], int]) -> Instruction:
    """The instruction with the offset for its label, which the tool made up."""
    text = one.text("")
    if "  " in text:
        text = _SPACES.sub(" ", text)
    match = _TARGET.search(text) if "`" in text else None
    target = None if match is None else 0 if match[1] == name else labels.get((name, match[1]))
    if match is None or target is None:
        return Instruction(one.offset, text)
    return Instruction(one.offset, text[: match.start()] + _HOLE + text[match.end() :], target)
