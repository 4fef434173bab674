"""Recording from inside a running program: start and stop as often as wanted."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.recorder.library import agent, collector
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.run import finish, prepare

_one_at_a_time = threading.Lock()


@contextmanager
def recording(profile: Path, options: RecordOptions, *, overwrite: bool) -> Iterator[Path]:
    if os.environ.get("AIFLAME_PROFILE"):
        yield Path(os.environ["AIFLAME_PROFILE"])  # `aiflame record` is at it already
        return
    if not _one_at_a_time.acquire(blocking=False):
        raise AiflameError("this program is being recorded already: end that recording first")
    try:
        library = ctypes.CDLL(str(collector()))
        page = prepare(profile, options, sys.orig_argv, overwrite=overwrite)
        with _cuda_asks_for_us(options):
            if not library.aiflame_start(os.fsencode(profile.absolute())):
                raise AiflameError(f"recording into {profile} could not be started: run `aiflame doctor`")
            try:
                yield profile
            finally:
                library.aiflame_stop()
                finish(profile, page, 0, [])
    finally:
        _one_at_a_time.release()


@contextmanager
def _cuda_asks_for_us(options: RecordOptions) -> Iterator[None]:
    """CUDA reads the variable when it starts, which may be while we record."""
    if not options.cuda or "CUDA_INJECTION64_PATH" in os.environ:
        yield
        return
    os.environ["CUDA_INJECTION64_PATH"] = str(agent())
    try:
        yield
    finally:
        os.environ.pop("CUDA_INJECTION64_PATH", None)
