"""Sees whether recorded memory grows from step to step. Only where it does, the program's containers are looked at, twice: those that got
longer in between may be the ones that keep the memory, and are recorded.

A step ends with that of an optimizer, in its thread; without optimizers the main thread comes here about once a second. While memory does
not grow, both are one call and a comparison.
"""

import posix

import _aiflame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GPU_MEMORY, HOST_MEMORY = 64, 2097152
"""Feature.GPU_MEMORY, Feature.HOST_MEMORY"""
TABLE = "memory_holders"
RISES = 4
"""Stretches that show that memory grows, and that lie between two looks."""
MOST_STRETCHES = 16
LEAST_BYTES = 256 << 10
"""That RISES stretches add."""
MOST_PAIRS = 2
"""Of looks that found containers, in a recording."""
PAUSE, PAUSE_AFTER_NONE = 4, 2
"""After a pair, the next is not before so many times the steps that there were then. After none that found containers, it is sooner."""
_MOST = (1 << 32) - 1


class Lows:
    """The lowest values of stretches of steps. Stretches get longer as the run does, so that slow growth shows beside memory that comes
    and goes."""

    def __init__(self) -> None:
        self.stretch = 1
        self.lows: list[int] = []
        self._low, self._count = 0, 0

    def add(self, value: int) -> bool:
        """True if that ends a stretch."""
        self._low = min(self._low, value) if self._count else value
        self._count += 1
        if self._count < self.stretch:
            return False
        self.lows.append(self._low)
        self._count = 0
        if len(self.lows) == MOST_STRETCHES:
            self.lows = [min(pair) for pair in zip(self.lows[::2], self.lows[1::2], strict=True)]
            self.stretch *= 2
        return True

    def grow(self) -> bool:
        """One of the rises may be missing: memory of the host is sampled."""
        last = self.lows[-RISES - 1 :]
        if len(last) <= RISES or last[-1] - last[0] < LEAST_BYTES:
            return False
        rises = [after - before for before, after in zip(last, last[1:], strict=False)]  # noqa: RUF007 - itertools may not be loaded yet
        return min(rises) >= 0 and sum(rise > 0 for rise in rises) >= RISES - 1


class Watch:
    """One recording of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.lows, self.steps, self.busy = Lows(), 0, False
        self.pairs, self.rests_until = 0, 0
        self.lengths: dict[int, int] | None = None
        self.since_ns, self.due, self.low = 0, 0, 0

    def step(self) -> None:
        now = _aiflame.live_bytes()
        if self.busy or not now or self.pairs == MOST_PAIRS or posix.getpid() != self.pid:
            return
        self.busy = True
        try:
            self.steps += 1
            if self.lows.add(now) and self.steps >= self.rests_until:
                self._judge()
        finally:
            self.busy = False

    def _judge(self) -> None:
        lows = self.lows.lows
        if self.lengths is None:
            if self.lows.grow():
                self.lengths, self.since_ns = memory_holders().lengths(), _aiflame.now_ns()
                self.due, self.low = self.steps + RISES * self.lows.stretch, lows[-RISES - 1]
            return
        fell = lows[-1] <= self.low
        if fell or self.steps >= self.due:
            lengths, self.lengths = self.lengths, None
            recorded = not fell and self._record(lengths)
            self.pairs += recorded
            self.rests_until = (PAUSE if recorded else PAUSE_AFTER_NONE) * self.steps

    def _record(self, lengths: dict[int, int]) -> bool:
        """False: none got longer."""
        longer, now = memory_holders().longer(lengths, RISES - 1), _aiflame.now_ns()
        for one in longer:
            texts = (one.path, one.function, one.file, one.type)
            numbers = min(one.items, _MOST), min(one.added, _MOST)
            addresses = b"".join(address.to_bytes(8, "little") for address in one.addresses)
            _aiflame.append(TABLE, *texts, *numbers, one.content, one.graphs, addresses, self.since_ns, now)
        return bool(longer)


def memory_holders() -> "Any":
    """Loaded when memory grows."""
    from . import memory_holders

    return memory_holders


_watch = Watch(posix.getpid())
_wanted, _has_steps = False, False


def install(_: object) -> None:
    recording_began()


def recording_began() -> None:
    global _watch, _wanted, _has_steps
    _watch, _wanted, _has_steps = Watch(posix.getpid()), bool(_aiflame.features & (GPU_MEMORY | HOST_MEMORY)), False


def step_ended() -> None:
    global _watch, _has_steps
    if _wanted:
        if not _has_steps:  # imports made memory grow, too
            _watch, _has_steps = Watch(_watch.pid), True
        _guarded()


def tick() -> None:
    """About once a second, in the main thread. It counts until a step has ended."""
    if _wanted and not _has_steps:
        _guarded()


def _guarded() -> None:
    """An error ends it for this recording: it is noted once."""
    global _wanted
    try:
        _watch.step()
    except Exception as error:
        _wanted = False
        _aiflame.note(f"the holders of memory that grows are not known: {type(error).__name__}: {error}".replace("\n", " "))
