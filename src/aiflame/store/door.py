"""From a path like `STORE@14:00..15:30` to a profile, which is kept in the user's cache until the hours of the range change."""

from __future__ import annotations

import atexit
import hashlib
import time
from pathlib import Path

from aiflame.exchange.readers.door import move_into
from aiflame.exchange.readers.making import Making
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import FILE_NAME as META_FILE
from aiflame.profile.sealing.aside import fresh_place, place_of_import, remove_place
from aiflame.store.layout import is_store
from aiflame.store.ranges import Range, parse_range
from aiflame.store.reading import FORMAT, fingerprint, write_range
from aiflame.version import VERSION

_NEW, _LOCK = "importing", "import.lock"
LAST_HOUR = "-1h"


def range_of_store(path: Path) -> Folder | None:
    """The profile of the range that a path names; of a store without a range, that of the last hour. None: it names no store."""
    store, text = _named(path)
    if store is None:
        return None
    wanted = parse_range(text, time.time())
    facts = repr((VERSION, wanted, store.status().st_ino, fingerprint(store, wanted)))
    place = place_of_import(hashlib.blake2b(facts.encode("utf-8", "replace"), digest_size=16).hexdigest(), "range.aiflame")
    if place is None:
        place = fresh_place()
        atexit.register(remove_place, place)
        _write(store, wanted, place)
    else:
        with place.locked(_LOCK):
            if not place.has_file(META_FILE):
                for name in set(place.names()) - {_LOCK}:  # somebody was killed here
                    place.remove_tree(name)
                _write(store, wanted, place)
    return place.called(path)


def _named(path: Path) -> tuple[Folder | None, str]:
    """The store and the range. Either may have an @ of its own: the first behind which a store ends is the one between them."""
    whole = str(path)
    for at in (place for place, letter in enumerate(whole) if letter == "@"):
        if at and (store := _store_at(Path(whole[:at]))) is not None:
            return store, whole[at + 1 :]
    return _store_at(path), LAST_HOUR


def _store_at(path: Path) -> Folder | None:
    try:
        folder = Folder.open(path)
    except (OSError, ValueError):
        return None
    return folder if is_store(folder) else None


def _write(store: Folder, wanted: Range, place: Folder) -> None:
    new = place.new_folder(_NEW)
    try:
        making = Making(new)
        write_range(store, wanted, making)
        making.finish(FORMAT, (store.name,), VERSION)
        move_into(new, place)
    finally:
        place.remove_tree(_NEW)
