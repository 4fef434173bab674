"""Completes a sealed profile: derives tables, and stores the data that they need from the machine on which it was recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from aiflame.errors import AiflameError
from aiflame.profile.folder import claims
from aiflame.profile.tables.store import Profile
from aiflame.resolve.device.no_tool import NO_TOOLS


def complete(profile: Profile, progress: Callable[[float], None] | None = None) -> None:
    """Looks up all names, once in a profile's life. Files outside of the profile are read only if this user recorded it on this machine
    (`outside.py`). The sealer calls this right after sealing; a command that opens an incomplete profile calls it, too."""
    if profile.has("symbols"):
        if not NO_TOOLS.isdisjoint(profile.meta.degraded):
            from aiflame.resolve.device.gpu_code import add_instructions

            add_instructions(profile)
        return
    # Readers of debug information and disassemblers take 0.2 s to import, and most profiles that a command opens are complete.
    from aiflame.resolve.files.outside import outside_of
    from aiflame.resolve.symbols import resolve

    with profile.alone():
        if profile.has("symbols"):
            return
        outside = outside_of(profile)
        resolve(profile, progress, outside)
        if outside.allowed and not profile.unfinished():
            _remove_copies(profile)
            claims.withdraw(profile.meta.id)


def _remove_copies(profile: Profile) -> None:
    """The names, lines and instructions of all sampled code are stored: copies of whole libraries are no longer needed."""
    if profile.is_ours:
        with contextlib.suppress(OSError, AiflameError):
            for name in ("binaries", "jit"):
                profile.folder.remove_tree(name)
