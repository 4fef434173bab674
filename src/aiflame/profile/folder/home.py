"""The user's home, which a user of a container or of a batch system may not have. Standard library alone."""

from __future__ import annotations

from pathlib import Path


def home() -> Path | None:
    """None where neither HOME nor the list of users names one."""
    try:
        return Path.home()
    except RuntimeError:
        return None
