"""Folders in the user's state folder, which nobody else can read or write. Standard library alone."""

from __future__ import annotations

import os
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.home import home


def state_path() -> Path:
    """`$XDG_STATE_HOME/aiflame`, by default `~/.local/state/aiflame`. FileNotFoundError where this user has no home."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if given.startswith("/"):
        return Path(given) / "aiflame"
    if (here := home()) is None:
        raise FileNotFoundError("this user has no home")
    return here / ".local/state/aiflame"


def state_folder(name: str) -> Folder:
    """This folder in the state folder; both are made if they are missing. OSError or AiflameError where they cannot be used."""
    path = state_path()
    path.mkdir(0o700, parents=True, exist_ok=True)
    base = Folder.open(path)
    _refuse_shared(base, 0o022)
    folder = base.make_folder(name).held()
    _refuse_shared(folder, 0o077)
    return folder


def _refuse_shared(folder: Folder, rights: int) -> None:
    status = folder.status()
    if status.st_uid != os.geteuid() or status.st_mode & rights:
        raise PermissionError(1, f"{folder.path} is not this user's alone")
