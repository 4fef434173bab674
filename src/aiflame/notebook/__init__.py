"""`%aiflame` and `%%aiflame` in IPython and in notebooks. `magic.py` alone imports IPython, when the extension is loaded."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Shell(Protocol):
        """The part of IPython's shell that loading an extension needs."""

        def register_magics(self, magics: type, /) -> None: ...
