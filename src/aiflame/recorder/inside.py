"""Recording from inside a running program: start and stop as often as wanted."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiflame import flight
from aiflame.errors import AiflameError
from aiflame.profile.folder.meta import Kept
from aiflame.profile.schema.control_schema import ControlState
from aiflame.recorder.end import finish
from aiflame.recorder.library import agent, collector
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.place import ProfileLocation, place_of, rank_here
from aiflame.recorder.run import prepare
from aiflame.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.recorder.ring.beside import Beside

_one_at_a_time = threading.Lock()


@contextmanager
def recording(profile: Path, options: RecordOptions, *, overwrite: bool) -> Iterator[Path]:
    if os.environ.get("AIFLAME_PROFILE"):
        yield Path(os.environ["AIFLAME_PROFILE"])  # `aiflame record` is already recording
        return
    if not _one_at_a_time.acquire(blocking=False):
        raise AiflameError("this program is being recorded already: end that recording first")
    recorder = os.getpid()
    try:
        library = ctypes.CDLL(str(collector()))
        where = place_of(profile, sys.orig_argv, rank_here(os.environ))
        options = replace(options, waits=False)  # no other process watches this one
        page, meta = prepare(where, options, sys.orig_argv, overwrite=overwrite)
        try:
            beside = _flight_recorder(where) if options.last_ms else None
        except AiflameError:
            where.remove()
            raise
        with _agent_variables(options), flight.recording_into(where.profile if beside else None):
            if not library.aiflame_start(os.fsencode(where.profile.absolute())):
                page.state = ControlState.STOPPED
                if beside is not None:
                    beside.finish()
                where.remove()
                raise AiflameError(f"recording into {profile} could not be started: run `aiflame doctor`")
            try:
                yield profile
            finally:
                if os.getpid() == recorder:  # a forked child may leave the block, too: the recording is its parent's
                    library.aiflame_stop()
                    if beside is not None:
                        now = time.monotonic_ns()
                        begin = max(now - options.last_ms * 1_000_000, meta.started.monotonic_ns)
                        meta = replace(meta, kept=Kept("the recording ended", begin, now))
                    finish(where, page, meta, 0, [], beside.finish if beside is not None else None)
    finally:
        _one_at_a_time.release()


def _flight_recorder(where: ProfileLocation) -> Beside:
    from aiflame.recorder.ring.beside import Beside

    return Beside(where)


@contextmanager
def _agent_variables(options: RecordOptions) -> Iterator[None]:
    """Sets the variables by which CUDA, NVTX and ITT load our agent. Libraries read them when they start or first mark a region, perhaps
    during the recording."""
    wanted = {"CUDA_INJECTION64_PATH": options.cuda, "NVTX_INJECTION64_PATH": options.regions, "INTEL_LIBITTNOTIFY64": options.regions}
    ours = [variable for variable, on in wanted.items() if on and variable not in os.environ]
    os.environ.update(dict.fromkeys(ours, str(agent())))
    try:
        yield
    finally:
        for variable in ours:
            os.environ.pop(variable, None)
