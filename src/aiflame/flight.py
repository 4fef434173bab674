"""For programs that a flight recorder records (`aiflame record --last 2m`): when the last minutes are worth keeping.

    aiflame.keep("loss is NaN")

    trainer = Trainer(..., callbacks=[aiflame.flight.for_transformers()])   # keeps slow steps
    trainer = lightning.Trainer(callbacks=[aiflame.flight.for_lightning()])

Runs in the program: the standard library alone, and nothing happens where no ring is being recorded.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MEDIAN_OF = 64
_FEWEST = 8


def keep(reason: str = "") -> bool:
    """Asks the recorder to keep the window that ends now, as a profile of its own; returns at once. False: no ring is being recorded."""
    ring = _own[-1] if _own else os.environ.get("AIFLAME_PROFILE")
    if not ring:
        return False
    text = json.dumps({"reason": str(reason)[:1000], "time_ns": time.monotonic_ns()})
    name = f"{ring}/requests/{os.getpid()}-{os.urandom(6).hex()}"
    try:
        # The recorder sees only complete requests.
        descriptor = os.open(f"{name}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            whole = os.write(descriptor, text.encode()) == len(text)
        finally:
            os.close(descriptor)
        if whole:
            os.rename(f"{name}.new", f"{name}.asked")  # noqa: PTH104
            return True
    except OSError:
        pass
    with suppress(OSError):  # the disk is full
        os.unlink(f"{name}.new")  # noqa: PTH108
    return False


_own: list[str] = []
"""The ring into which the program records itself."""


@contextmanager
def recording_into(ring: str | os.PathLike[str] | None) -> Iterator[None]:
    """While the program records itself into this ring (None: into none), `keep` asks its recorder."""
    if ring is None:
        yield
        return
    _own.append(os.path.abspath(ring))  # noqa: PTH100
    try:
        yield
    finally:
        _own.pop()


class SlowSteps:
    """Keeps the window when a step has taken `times` as long as the median of the steps before it. The first eight steps only count."""

    def __init__(self, times: float = 3.0) -> None:
        if not times > 1:
            raise ValueError(f"a slow step takes longer than the median: times={times!r}")
        self.times = times
        self._took: deque[float] = deque(maxlen=_MEDIAN_OF)
        self._began = 0.0

    def begin(self) -> None:
        self._began = time.monotonic()

    def end(self, name: str) -> bool:
        """True if the step was slow, and a ring is being recorded."""
        if not self._began:
            return False
        took, self._began = time.monotonic() - self._began, 0.0
        median = sorted(self._took)[len(self._took) // 2] if len(self._took) >= _FEWEST else 0.0
        self._took.append(took)
        return bool(median) and took >= self.times * median and keep(f"{name} took {took:.2f} s, {took / median:.1f} times the median")


def for_transformers(times: float = 3.0) -> Any:
    """A callback for the `Trainer` of transformers."""
    from transformers import TrainerCallback

    steps = SlowSteps(times)

    class KeepSlowSteps(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            steps.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            steps.end(f"step {state.global_step}")

    return KeepSlowSteps()


def for_lightning(times: float = 3.0) -> Any:
    """A callback for the `Trainer` of PyTorch Lightning."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    steps = SlowSteps(times)

    class KeepSlowSteps(Callback):  # type: ignore[misc]
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
            steps.begin()

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            steps.end(f"step {trainer.global_step}")

    return KeepSlowSteps()
