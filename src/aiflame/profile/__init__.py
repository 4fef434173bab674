"""What a profile is: the schema, reading the spool, sealing, the sealed store.

`opening.open_profile` is the way to one; it seals where that is needed. The recorder runs on the standard library alone: what needs
Polars is imported where it is used, from its own module.
"""

from __future__ import annotations

from .control import ControlPage
from .meta import Clocks, Host, Meta, Recorder

__all__ = ["Clocks", "ControlPage", "Host", "Meta", "Recorder"]
