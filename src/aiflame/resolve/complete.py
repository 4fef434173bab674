"""Completes a sealed profile: whatever is derived from its tables, and whatever it needs of the machine on which it was recorded."""

from __future__ import annotations

from collections.abc import Callable

from aiflame.profile import claims
from aiflame.profile.store import Profile
from aiflame.resolve.gpu_code import add_instructions
from aiflame.resolve.outside import outside_of
from aiflame.resolve.symbols import resolve


def complete(profile: Profile, progress: Callable[[float], None] | None = None) -> None:
    """Looks up all names, once in a profile's life. Files beside the profile are read meanwhile if this user recorded it on this machine
    (`outside.py`): the process that seals a recording calls this right after, and so does whoever opens a profile that was left behind."""
    if profile.has("symbols"):
        add_instructions(profile)
        return
    resolve(profile, progress, outside_of(profile))
    claims.withdraw(profile.meta.id)
