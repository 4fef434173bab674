"""Starts background processes that seal a finished recording, and send it, so that the user gets the prompt back at once."""

# ruff: noqa: PTH208

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from aiflame.imported_with import ONE_BLAS_THREAD

_STREAMS = (0, 1, 2)
_PACKAGES = str(Path(__file__).absolute().parents[2])
_PROGRAM = "import sys; sys.path[:1] = []; sys.path.append({packages!r}); from aiflame.{module} import main; main(*sys.argv[1:])"
"""The current folder is not searched for modules: it belongs to the profiled program, and may soon be removed."""
_SEALER, _SENDER = "cli.support.sealer", "push.background"


def can_seal() -> bool:
    """True if this Python has the packages that sealing needs."""
    from importlib.util import find_spec

    return find_spec("polars") is not None


def start_sealer(profile: Path, held: Mapping[str, int], push: str = "") -> int:
    """Starts the process that seals `profile` in the background, and then puts it into the queue `push`, if one is named. Returns its id;
    0 if no process can be started."""
    wanted = [f"push={push}"] if push else []
    return _start(
        _SEALER, [str(profile.absolute()), *(f"{name}={descriptor}" for name, descriptor in held.items()), *wanted], held.values()
    )


def start_sender(queue: str) -> int:
    """Starts the process that sends the waiting bodies of that queue. Returns its id; 0 if no process can be started."""
    return _start(_SENDER, [queue], ())


def _start(module: str, arguments: list[str], held: Collection[int]) -> int:
    """The process runs in its own session, so that neither Ctrl-C nor a closed terminal ends it. Of our open files it inherits only `held`:
    otherwise a launcher that waits until its ranks have closed their output would wait for it.
    """
    for descriptor in held:
        os.set_inheritable(descriptor, True)
    to_close = [number for number in _inherited() if number not in held]
    null = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in _STREAMS]
    command = [sys.executable, "-c", _PROGRAM.format(packages=_PACKAGES, module=module), *arguments]
    try:
        return os.posix_spawn(
            command[0],
            command,
            {**os.environ, **ONE_BLAS_THREAD},
            file_actions=[*null, *((os.POSIX_SPAWN_CLOSE, number) for number in to_close)],
            setsid=True,
            setsigmask=(),  # the recorder holds signals
            setsigdef=(signal.SIGCHLD,),  # where it is ignored, nobody learns how a child ended
        )
    except OSError:
        return 0


def _inherited() -> list[int]:
    """Descriptors that a child process would inherit."""
    descriptors = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) not in _STREAMS and os.get_inheritable(int(name)):
                descriptors.append(int(name))
        except OSError:  # noqa: PERF203  the descriptor of the listing itself
            continue
    return descriptors
