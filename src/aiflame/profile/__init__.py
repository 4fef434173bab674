"""What a profile is: the schema, reading the spool, sealing, the sealed store.

Sealing is `aiflame.profile.seal.seal`; opening a profile does it where it is needed. The recorder runs on the standard
library alone, so what needs Polars is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .control import ControlPage
from .meta import Clocks, Host, Meta, Recorder

if TYPE_CHECKING:
    from .store import Profile, newest

__all__ = ["Clocks", "ControlPage", "Host", "Meta", "Profile", "Recorder", "newest"]

_LATE = {"Profile": "store", "newest": "store"}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_LATE[name]}", __name__), name)
    globals()[name] = value
    return value
