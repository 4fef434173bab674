"""What a profile is: the schema, reading the spool, sealing, the sealed store.

Sealing is `aiflame.profile.seal.seal`; opening a profile does it where it is needed. The recorder runs on the standard
library alone, so what needs Polars is imported on first use.
"""

from __future__ import annotations

from .control import ControlPage
from .meta import Clocks, Host, Meta, Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .store import Profile, newest

__all__ = ["Clocks", "ControlPage", "Host", "Meta", "Profile", "Recorder", "newest"]


def __getattr__(name: str) -> object:
    if name not in ("Profile", "newest"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import store

    value: object = getattr(store, name)
    globals()[name] = value
    return value
