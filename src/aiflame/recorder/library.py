"""Paths of the collector and its libraries."""

from __future__ import annotations

import os
from pathlib import Path

from aiflame.errors import AiflameError


def collector() -> Path:
    """The path of `libaiflame.so`, without characters that split LD_PRELOAD."""
    return _plain(collector_file())


def collector_file() -> Path:
    path = Path(os.environ.get("AIFLAME_LIBRARY") or Path(__file__).parent.parent / "lib" / "libaiflame.so").absolute()
    if not path.is_file():
        raise AiflameError(f"the collector is missing at {path}: reinstall aiflame (pip install --force-reinstall aiflame)")
    return path


def agent() -> Path:
    """The path of `libaiflame_agent.so`, beside the collector."""
    return _plain(collector_file().with_name("libaiflame_agent.so"))


def mpi_library() -> Path:
    """The path of `libaiflame_mpi.so`, beside the collector."""
    return _plain(collector_file().with_name("libaiflame_mpi.so"))


def memory_library() -> Path:
    """The path of `libaiflame_memory.so`, beside the collector."""
    return _plain(collector_file().with_name("libaiflame_memory.so"))


def level_zero_library() -> Path:
    """The path of `libaiflame_level_zero.so`, beside the collector."""
    return _plain(collector_file().with_name("libaiflame_level_zero.so"))


def hip_library() -> Path:
    """The path of `libaiflame_hip.so`, beside the collector."""
    return _plain(collector_file().with_name("libaiflame_hip.so"))


def _plain(path: Path) -> Path:
    """LD_PRELOAD is split at spaces and colons and has no quoting: such a path is replaced by a link with a plain name."""
    if not any(character in str(path) for character in " :;$"):
        return path
    import hashlib
    import tempfile

    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    link = Path(tempfile.gettempdir()) / f"aiflame-{os.getuid()}-{name}.so"
    try:
        if not (link.is_symlink() and link.readlink() == path):
            link.unlink(missing_ok=True)
            link.symlink_to(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AiflameError(
            f"cannot stand in for {path} with {link}: {reason}: install aiflame where no path has spaces or colons"
        ) from None
    return link
