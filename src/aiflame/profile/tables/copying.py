"""A copy of a sealed profile, for a profile that is made from it."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.profile.tables.store import Profile

TABLES = "tables"
_BESIDE = ("cubins", "kept", "telemetry", "intra")
"""Folders of files that readers use."""


@contextlib.contextmanager
def copied(profile: Profile, path: Path, meta: Meta) -> Iterator[None]:
    """Makes a profile at `path` with the tables of another, recorded and derived, and with `meta`; removes it if the block fails."""
    try:
        new = Folder.new(path)
    except FileExistsError:
        raise AiflameError(f"{path} exists: choose another name with -o") from None
    except OSError as error:
        raise AiflameError(f"cannot write {path}: {error.strerror or error}") from None
    try:
        for name in _BESIDE:
            if profile.folder.has_folder(name):
                _copy(profile.folder.folder(name), new.make_folder(name))
        profile.copy_tables(new.make_folder(TABLES))
        meta.write(new)
        yield
        new.sync_tree()
    except BaseException as error:
        with contextlib.suppress(OSError, AiflameError):
            Folder.open(path.parent).remove_tree(path.name)
        if isinstance(error, OSError):
            raise AiflameError(f"cannot write {path}: {error.strerror or error}") from None
        raise


def _copy(folder: Folder, to: Folder) -> None:
    for entry in folder.entries():
        if entry.is_folder:
            _copy(folder.folder(entry.name), to.make_folder(entry.name))
        elif entry.is_file:
            with folder.file(entry.name) as source, io.BufferedWriter(to.new_file(entry.name)) as target:
                if source is not None:
                    shutil.copyfileobj(source, target)
