"""Reads Parquet and Arrow in another process, before this one reads them.

Polars ends its process where a damaged file asks for more memory than there is. A request to the other process is a line of JSON,
{"size": N, "parquet": PATH} or {"size": N} and then N bytes of Arrow; it reads all columns, and answers with an empty line.
Errors of the content are reported when we read it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import polars as pl

from aiflame.errors import AiflameError

_PROGRAM = "import sys; sys.path[:] = {path!r}; from aiflame.exchange.readers.nsys.trial import answer; answer()"
_MEMORY = 2 << 30
_FOR_EACH_BYTE = 20
"""More memory for larger files: their columns are compressed."""
_SECONDS = 300
"""Of the processor, for each request."""
_IDLE_SECONDS = 2
_AT_ONCE = 1 << 17
"""Bytes of a file whose columns are read together."""
_FAILURES = (OSError, ValueError, TypeError, MemoryError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def try_parquet(file: Path) -> None:
    _READER.try_(str(file), {"size": file.stat().st_size, "parquet": str(file.absolute())}, b"")


def try_arrow(name: str, data: bytes) -> None:
    _READER.try_(name, {"size": len(data)}, data)


class _OtherProcess:
    """It ends when nobody asks for two seconds; the next request starts another."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def try_(self, name: str, request: dict[str, int | str], data: bytes) -> None:
        with self._lock:
            if not self._survives(json.dumps(request).encode() + b"\n" + data):
                raise AiflameError(f"cannot read {name}: it is damaged, or needs too much memory for its size")

    def _survives(self, request: bytes) -> bool:
        while True:
            is_new = self._process is None or self._owner != os.getpid()
            if is_new:
                self._start()
            if self._answers(request):
                return True
            status = self._end()
            if is_new or status != 0:
                return False

    def _start(self) -> None:
        # If we run inside a recorded program, our child processes must not be recorded.
        variables = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "AIFLAME_PROFILE")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(path=[str(Path(folder).absolute()) for folder in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=variables | {"POLARS_MAX_THREADS": "1"},
        )
        self._owner = os.getpid()

    def _answers(self, request: bytes) -> bool:
        assert self._process and self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except BrokenPipeError:
            return False
        return bool(self._process.stdout.readline())

    def _end(self) -> int:
        assert self._process
        ended, self._process = self._process, None
        with contextlib.suppress(BrokenPipeError):
            ended.communicate()
        return ended.wait()


_READER = _OtherProcess()


def answer() -> None:
    """Runs in the other process."""
    requests = sys.stdin.buffer
    while select.select([requests], [], [], _IDLE_SECONDS)[0] and (line := requests.readline()):
        request = json.loads(line)
        _limit(request["size"])
        try:
            if "parquet" in request:
                _read_parquet(request["parquet"], request["size"])
            else:
                _read_arrow(requests.read(request["size"]))
        except _FAILURES:
            pass
        print(flush=True)


def _limit(size: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + _SECONDS
    for bound, most in ((resource.RLIMIT_AS, _MEMORY + _FOR_EACH_BYTE * size), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(bound)[1]
        resource.setrlimit(bound, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _read_parquet(file: str, size: int) -> None:
    frame = pl.scan_parquet(file)
    _read(size, frame.collect_schema().names(), lambda names: frame.select(names).collect())


def _read_arrow(data: bytes) -> None:
    read: Callable[..., pl.DataFrame] = pl.read_ipc if data.startswith(b"ARROW1") else pl.read_ipc_stream
    _read(len(data), read(BytesIO(data), n_rows=0).columns, lambda names: read(BytesIO(data), columns=names))


def _read(size: int, names: list[str], read: Callable[[list[str]], pl.DataFrame]) -> None:
    """All columns of a small file at once, which is cheaper; each alone where that fails, so that a failure hides no other."""
    if size <= _AT_ONCE:
        try:
            read(names)
        except _FAILURES:
            pass
        else:
            return
    for name in names:
        with contextlib.suppress(*_FAILURES):
            read([name])
