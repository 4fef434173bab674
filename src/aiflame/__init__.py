"""aiflame: AI flame graphs for everyone."""

from __future__ import annotations

from aiflame.errors import AiflameError
from aiflame.flight import keep
from aiflame.region import region
from aiflame.version import VERSION as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame import flight
    from aiflame.api import Profile, open, record
    from aiflame.notebook import Shell

__all__ = ["AiflameError", "Profile", "__version__", "flight", "keep", "open", "record", "region"]


def __getattr__(name: str) -> object:
    """The Python interface is imported at its first use: `aiflame record` does not need it, and starts earlier."""
    if name not in ("Profile", "open", "record"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aiflame import api

    value: object = getattr(api, name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Shell) -> None:
    """`%load_ext aiflame` in a notebook."""
    from aiflame.notebook.magic import AiflameMagics

    shell.register_magics(AiflameMagics)
