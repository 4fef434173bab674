"""Where the files of a store lie. Standard library alone.

STORE/store.json                    the format
STORE/agent.lock                    held by the agent that writes the store
STORE/waiting/ID/                   windows that are being recorded, or wait to be added
STORE/hours/2026-11-27T14Z/PART/    tables of the windows that began in this hour (UTC), `TABLE.parquet`
"""

from __future__ import annotations

import calendar
import errno
import fcntl
import json
import os
import re
import stat
import time
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder

MARK, LOCK, WAITING, HOURS = "store.json", "agent.lock", "waiting", "hours"
FORMAT = 1
PARTIAL = ".partial"
_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\dZ")
_WRITTEN = "%Y-%m-%dT%HZ"
_LARGEST_MARK = 1 << 16
HOUR_S = 3600


def hour_of(since_1970_ns: int) -> str:
    return time.strftime(_WRITTEN, time.gmtime(since_1970_ns // 10**9))


def begin_of(hour: str) -> int:
    """Seconds since 1970."""
    return calendar.timegm(time.strptime(hour, _WRITTEN))


def make_store(path: Path) -> Folder:
    """The folder of a store that is there, or of a new one. AiflameError where others could read it, or where it is no store."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            store = Folder.new(path)
        except FileExistsError:
            store = Folder.open(path)
        fresh = not is_store(store)
        if fresh and store.entries():
            raise AiflameError(f"{path} has other files and is no store: name a new folder with --store")
        _refuse(store)
        if fresh:
            store.write(MARK, json.dumps({"format": FORMAT}).encode())
        for name in (WAITING, HOURS):
            store.make_folder(name)
    except OSError as error:
        raise AiflameError(f"cannot write a store in {path}: {(error.strerror or str(error)).lower()}: name another with --store") from None
    return store


def is_store(folder: Folder) -> bool:
    """AiflameError: it is one of a later version."""
    text = folder.read(MARK, limit=_LARGEST_MARK)
    if text is None:
        return False
    try:
        number = json.loads(text)["format"]
    except (ValueError, KeyError, TypeError):
        return False
    if number != FORMAT:
        raise AiflameError(f"{folder.path} is a store of format {number!r}, which this version of aiflame does not know: update aiflame")
    return True


def take(store: Folder) -> int:
    """The lock of the agent that writes the store, as a descriptor. AiflameError: another agent has it."""
    lock = store.lock_file(LOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if error.errno != errno.EWOULDBLOCK:
            raise
        raise AiflameError(f"another agent writes {store.path}: end it first, or name another store with --store") from None
    return lock


def hours(store: Folder) -> list[str]:
    """From the oldest."""
    return sorted(name for name in store.folder(HOURS).names() if _HOUR.fullmatch(name))


def parts(store: Folder, hour: str) -> list[str]:
    return sorted(name for name in store.folder(HOURS, hour).names() if not name.endswith(PARTIAL))


def remove_hour(store: Folder, hour: str) -> None:
    """A reader sees the hour whole, or not at all."""
    folder = store.folder(HOURS)
    gone = f"{hour}.{os.urandom(4).hex()}{PARTIAL}"
    folder.rename(hour, gone)
    folder.remove_tree(gone)


def remove_partial(store: Folder) -> None:
    """Removes parts and hours that a killed process has left half written or half removed."""
    folder = store.folder(HOURS)
    for name in folder.names():
        if name.endswith(PARTIAL):
            folder.remove_tree(name)
        elif _HOUR.fullmatch(name):
            hour = folder.folder(name)
            for part in hour.names():
                if part.endswith(PARTIAL):
                    hour.remove_tree(part)


def _refuse(store: Folder) -> None:
    status = store.status()
    if status.st_uid != os.geteuid():
        raise AiflameError(f"{store.path} belongs to another user: name a store of your own with --store")
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise AiflameError(f"others may read {store.path}, and a store shows your programs: chmod 700 it first")
