"""Inside a Triton kernel: compiler passes that put time marks into it, on unmodified programs and stock Triton (docs/intra.md).

Runs in the profiled program, and needs only the standard library and the program's own Triton.
"""

from aiflame.intra.ops import Op
from aiflame.intra.passes import Kernel, Scope, pass_

__all__ = ["Kernel", "Op", "Scope", "pass_"]
