"""Where the tables of a profile that is not ours are written: in a folder of this user's own, below the user's cache.

A profile is ours if its folder belongs to the user who reads it, and can be written to. Root can read everybody's profiles, but owns only
its own. The folder in the cache is named after the present state of the profile's files: when they change, its tables are no longer used.
Standard library alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import start_ticks
from aiflame.profile.folder.user_cache import cache_folder

_KEPT_S = 30 * 86400.0
"""Tables that no command has used for this long are removed."""
_MOST_KEPT = 256
_FRESH = "now."


def is_ours(profile: Folder) -> bool:
    return profile.status().st_uid == os.geteuid() and profile.writable()


def place_for(profile: Folder) -> Folder | None:
    """The folder for tables of a profile in its present state. None: this user has no cache that is safe to write to."""
    try:
        cache = _cache()
        if cache is None:
            return None
        name = _fingerprint(profile)
        if not cache.has_folder(name):
            _remove_old(cache)
        place = cache.make_folder(name)
        place.touch()
        return place
    except (OSError, AiflameError):
        return None


def place_of_import(digest: str, name: str) -> Folder | None:
    """The folder for the profile of a file with this content. None: this user has no cache that is safe to write to."""
    try:
        cache = _cache()
        if cache is None:
            return None
        if not cache.has_folder(digest):
            _remove_old(cache)
        of_content = cache.make_folder(digest)
        of_content.touch()
        return of_content.make_folder(name).held()
    except (OSError, AiflameError):
        return None


def fresh_place() -> Folder:
    """An empty folder that no other process uses: below the user's cache, or in the folder for temporary files."""
    with contextlib.suppress(OSError, AiflameError, RuntimeError):
        if (cache := _cache()) is not None:
            _remove_orphans(cache)
            return cache.new_folder(f"{_FRESH}{os.getpid()}.{start_ticks(os.getpid())}.{os.urandom(8).hex()}").held()
    return Folder.open(tempfile.mkdtemp(prefix="aiflame-"))


def remove_place(place: Folder) -> None:
    """Removes a folder that `fresh_place` made."""
    with contextlib.suppress(OSError, AiflameError):
        Folder.open(place.path.parent).remove_tree(place.name)


def _remove_orphans(cache: Folder) -> None:
    """Removes the folders that killed processes have left."""
    for entry in cache.entries():
        if entry.name.startswith(_FRESH):
            pid, _, suffix = entry.name.removeprefix(_FRESH).partition(".")
            if not pid.isdecimal() or str(start_ticks(int(pid))) != suffix.partition(".")[0]:
                cache.remove_tree(entry.name)


def _cache() -> Folder | None:
    return cache_folder("profiles")


def _fingerprint(profile: Folder) -> str:
    """A digest of the folder and the files in it. A change to a file changes its time, and so the digest."""
    whole = profile.status()
    digest = hashlib.sha256(f"{whole.st_dev} {whole.st_ino}".encode())
    for entry in profile.walk():
        of = entry.status
        digest.update(repr((entry.names, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns)).encode())
    return digest.hexdigest()[:32]


def _remove_old(cache: Folder) -> None:
    places = sorted(cache.entries(), key=lambda entry: entry.status.st_mtime, reverse=True)
    now = time.time()
    for number, entry in enumerate(places):
        if number >= _MOST_KEPT or now - entry.status.st_mtime > _KEPT_S:
            cache.remove_tree(entry.name)
