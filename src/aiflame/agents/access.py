"""The rights that the user who starts the server gives an agent: folders with profiles, and commands that may be recorded."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiflame
from aiflame.analyze.kernel.source_text import SourceFolder
from aiflame.api import Profile
from aiflame.errors import AiflameError
from aiflame.profile.opening import newest


@dataclass(frozen=True, slots=True)
class Access:
    folders: tuple[Path, ...]
    """Profiles in these folders may be opened. New ones are written into the first folder."""
    any_command: bool = False
    commands: tuple[tuple[str, ...], ...] = ()
    """The beginnings of command lines that may be recorded."""
    sources: SourceFolder | None = None

    @staticmethod
    def to(folders: Sequence[Path], *, any_command: bool = False, commands: Sequence[str] = (), sources: Path | None = None) -> Access:
        for folder in folders:
            if not folder.is_dir():
                raise AiflameError(f"{folder} is no folder: name folders with profiles")
        real = tuple(folder.resolve() for folder in folders)
        begin = tuple(tuple(_words(command)) for command in commands)
        return Access(real, any_command, begin, SourceFolder(sources) if sources is not None else None)

    def open(self, name: str) -> Profile:
        return aiflame.open(self.path(name))

    def path(self, name: str) -> Path:
        """The path of the profile with this name; without a name, the newest. Links that lead out of the folders are refused."""
        if not name:
            return self._newest()
        places = [self._real(folder / name) for folder in self.folders]  # an absolute name stays as it is
        inside = [place for place in places if place is not None]
        if not inside:
            raise AiflameError(f"{name} lies outside the folders of this server: {self._named()}; its user starts it with other folders")
        return next((place for place in inside if place.exists()), inside[0])

    def refuse_command(self, command: Sequence[str]) -> None:
        """Error for a command that may not be recorded."""
        if self.any_command or any(tuple(command[: len(begin)]) == begin for begin in self.commands):
            return
        if not self.commands:
            raise AiflameError(
                "this server may not record: its user allows it with aiflame mcp --allow-record, or records by hand:"
                f" aiflame record -- {shlex.join(command)}"
            )
        allowed = ", ".join(shlex.join(begin) for begin in self.commands)
        raise AiflameError(f"this server records only commands that begin with: {allowed}")

    def _newest(self) -> Path:
        for folder in self.folders:
            with contextlib.suppress(AiflameError):
                return self.path(newest(folder, lambda path: self._real(path) is not None).name)
        raise AiflameError(f"nothing recorded: no profile (*.aiflame) in {self._named()}: record one with `aiflame record -- COMMAND`")

    def _real(self, path: Path) -> Path | None:
        """The path with links resolved, if it is in one of the folders."""
        try:
            real = path.resolve()
        except (OSError, ValueError, RuntimeError):
            return None
        return real if any(real != folder and real.is_relative_to(folder) for folder in self.folders) else None

    def _named(self) -> str:
        return ", ".join(map(str, self.folders))


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise AiflameError(f"--allow-command {command}: {error}") from None
    if not words:
        raise AiflameError("--allow-command needs the beginning of a command line")
    return words
