"""Folders in the user's cache. Standard library alone."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.home import home


def cache_folder(name: str) -> Folder | None:
    """This folder of `aiflame` in the user's cache; nobody else may write to the cache, and nobody else may read `aiflame`.

    None where this user has no such cache: a shared folder like /tmp is none. OSError or AiflameError where it cannot be used."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    here = home()
    above = Path(named) if named.startswith("/") else here and here / ".cache"
    if above is None or not above.is_absolute():
        return None
    with contextlib.suppress(FileNotFoundError):
        if above.parent.stat().st_uid == os.geteuid():
            above.mkdir(0o700, exist_ok=True)
    base = Folder.open(above)
    status = base.status()
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
        return None
    cache = base.make_folder("aiflame")
    status = cache.status()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return None
    return cache.make_folder(name).held()
