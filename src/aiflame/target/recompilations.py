"""Records why Dynamo compiles a function again: Dynamo finds out which guard failed, and stores that with its other data about a
compilation. The program's own code runs no slower."""

from __future__ import annotations

import functools
import sys
from typing import Any

TABLE = "recompilations"
_FUNCTION = "add_compilation_metrics_to_chromium"
"""Dynamo calls it at the end of each compilation, with its data."""
_DONE = "_aiflame_done"
_LONGEST = 1000
"""Characters of a reason; a stack of the program follows it."""


def install(utils: Any) -> None:
    """`utils`: torch._dynamo.utils"""
    original = getattr(utils, _FUNCTION, None)
    if original is None or hasattr(original, _DONE):
        return

    @functools.wraps(original)
    def recording(facts: Any) -> Any:
        record(facts)
        return original(facts)

    setattr(recording, _DONE, True)
    setattr(utils, _FUNCTION, recording)


def record(facts: Any) -> None:
    """Records why a function was compiled again. The first compilation has no reason."""
    try:
        reason = getattr(facts, "recompile_reason", None)
        if not reason or not facts.co_filename:
            return
        bridge: Any = sys.modules["_aiflame"]
        end, took = bridge.now_ns(), int(facts.duration_us or 0) * 1000
        bridge.append(TABLE, facts.co_name, facts.co_filename, facts.co_firstlineno, reason[:_LONGEST], max(end - took, 0), end)
    except Exception:
        pass  # another release of torch has other data
