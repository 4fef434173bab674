"""How the recorded processes see this machine, where that is not the recorder's own view: `aiflame attach` of a program in a container."""

from __future__ import annotations

import os
from pathlib import Path

from aiflame.profile.folder.other_root import open_root
from aiflame.recorder.numbers import Numbers
from aiflame.values import dataclass, field


@dataclass(frozen=True, slots=True)
class View:
    numbers: Numbers = field(default_factory=Numbers)
    root: int | None = None
    """The root folder of the program, open, where its paths do not lead to the recorder's files; None: they do."""

    @classmethod
    def of(cls, pid: int) -> View:
        """OSError: the process has ended."""
        return cls(Numbers.of(pid), open_root(pid) if _has_other_files(pid) else None)

    def close(self) -> None:
        if self.root is not None:
            os.close(self.root)


def _has_other_files(pid: int) -> bool:
    same_mounts = os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")  # noqa: PTH115
    return not same_mounts or not os.path.samestat(Path(f"/proc/{pid}/root").stat(), Path("/").stat())


OURS = View()
