"""Facts about the whole profile, for the files that hold it."""

from __future__ import annotations

from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.values import dataclass
from aiflame.version import VERSION


@dataclass(frozen=True, slots=True)
class Facts:
    command: tuple[str, ...] = ()
    host: str = ""
    notes: tuple[str, ...] = ()
    clocks: Clocks = Clocks()
    """The same moment on three clocks."""
    took_ns: int = 0
    """0: not known"""
    imported: bool = False
    """Another tool's file: its times are those of calls, not of samples."""
    identity: str = ""
    """Different in different recordings; "": not known."""
    after_ns: int = 0
    """The profile's own time begins so long after the moment of the clocks."""

    @staticmethod
    def of(meta: Meta) -> Facts:
        ended = meta.ended.monotonic_ns if meta.ended is not None else meta.started.monotonic_ns
        after = 0
        if meta.kept is not None:  # the window of a flight recorder that began before
            after, ended = max(meta.kept.begin_ns - meta.started.monotonic_ns, 0), meta.kept.end_ns
        command, notes = (tuple(map(_utf8, texts)) for texts in (meta.command, meta.degraded))
        took = max(ended - meta.started.monotonic_ns - after, 0)
        return Facts(command, _utf8(meta.host.name), notes, meta.started, took, meta.imported is not None, meta.id, after)

    @property
    def began_ns(self) -> int:
        """Since 1970; 0: not known."""
        return self.clocks.realtime_ns + self.after_ns if self.clocks.realtime_ns > 0 else 0

    @property
    def comments(self) -> list[str]:
        command = [f"command: {' '.join(self.command)}"] if self.command else []
        return [f"aiflame {VERSION}", *command, *(f"note: {note}" for note in self.notes)]

    def since_1970(self, monotonic_ns: int) -> int:
        """A moment of the profile's clock; where the clocks are not known, as it is."""
        return monotonic_ns + (self.clocks.realtime_ns - self.clocks.monotonic_ns if self.clocks.realtime_ns > 0 else 0)


def _utf8(text: str) -> str:
    """`meta.json` may have halves of characters, which no file of ours can."""
    return text.encode("utf-8", "replace").decode()
