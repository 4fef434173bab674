"""With --keep-ir: the stages of each Triton kernel that is compiled or comes from Triton's cache, as files of the profile.

Every compiled kernel passes through `CompiledKernel.__init__`: the program's own, Inductor's, and those from Inductor's worker processes.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

from . import kept_files

KEEP_IR = 2048
"""Feature.KEEP_IR"""
STAGES = ("ttir", "ttgir", "llir", "ptx", "amdgcn")

_DONE = "_aiflame_ir"


def install(module: Any) -> None:
    """`module`: triton.compiler.compiler, which has just been imported."""
    kernel = module.CompiledKernel
    if not sys.modules["_aiflame"].features & KEEP_IR or getattr(kernel, _DONE, False):
        return
    init = kernel.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        try:
            keep(self)
        except Exception as error:
            sys.modules["_aiflame"].note(f"Triton: intermediate representations are not kept ({type(error).__name__})")

    kernel.__init__ = __init__
    setattr(kernel, _DONE, True)


def keep(kernel: Any) -> None:
    """Records a kernel's stages, once per profile: file names contain its hash."""
    aiflame = sys.modules["_aiflame"]
    name = str(kernel.metadata.name)
    for stage, text in kernel.asm.items():
        if stage not in STAGES or not isinstance(text, str):
            continue
        file = f"{re.sub(r'[^A-Za-z0-9_]', '_', name)[:100]}-{str(kernel.hash)[:12]}.{stage}"
        if kept_files.write(aiflame.profile, file, text):
            aiflame.append("kept_files", name, "", stage, file)
