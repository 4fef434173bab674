"""All passes: the bundled ones, and those that a program has registered."""

from __future__ import annotations

from collections.abc import Iterable

import aiflame.intra.auto
import aiflame.intra.presets  # noqa: F401 - both register their passes when they are imported
from aiflame.intra.errors import Refused
from aiflame.intra.passes import Pass, registered


def known() -> dict[str, Pass]:
    """All passes, by name."""
    return registered()


def chosen(names: Iterable[str]) -> list[tuple[str, Pass]]:
    """Passes by name, each once."""
    passes = known()
    missing = [name for name in names if name not in passes]
    if missing:
        raise Refused(f"no pass is called {missing[0]}: choose from {', '.join(sorted(passes))}")
    return [(name, passes[name]) for name in dict.fromkeys(names)]
