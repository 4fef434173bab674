"""Inside a Triton kernel: compiler passes that put time marks into it, on unmodified programs and stock Triton (docs/intra.md).

Runs in the profiled program, and needs only the standard library and the program's own Triton.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.intra.ops import Op
    from aiflame.intra.passes import Kernel, Scope, pass_

__all__ = ["Kernel", "Op", "Scope", "pass_"]
_HOME = {"Op": "ops", "Kernel": "passes", "Scope": "passes", "pass_": "passes"}


def __getattr__(name: str) -> object:
    """Readers of a profile need the names of this package's other modules, and no passes."""
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
