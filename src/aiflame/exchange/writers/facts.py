"""Facts about the whole profile, for the files that hold it."""

from __future__ import annotations

from dataclasses import dataclass

from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.version import VERSION


@dataclass(frozen=True, slots=True)
class Facts:
    command: tuple[str, ...] = ()
    host: str = ""
    notes: tuple[str, ...] = ()
    clocks: Clocks = Clocks()  # noqa: RUF009
    """The same moment on three clocks."""
    took_ns: int = 0
    """0: not known"""
    imported: bool = False
    """Another tool's file: its times are those of calls, not of samples."""

    @staticmethod
    def of(meta: Meta) -> Facts:
        ended = meta.ended.monotonic_ns if meta.ended is not None else meta.started.monotonic_ns
        command, notes = (tuple(map(_utf8, texts)) for texts in (meta.command, meta.degraded))
        return Facts(
            command, _utf8(meta.host.name), notes, meta.started, max(ended - meta.started.monotonic_ns, 0), meta.imported is not None
        )

    @property
    def began_ns(self) -> int:
        """Since 1970; 0: not known."""
        return max(self.clocks.realtime_ns, 0)

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
