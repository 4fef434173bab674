"""The argument of `--intra`: its passes and kernels as JSON, which our code in the program reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

from aiflame.errors import AiflameError

VARIABLE = "AIFLAME_INTRA"
PRESETS = ("auto", "loads", "mma", "pipeline", "barriers", "stores", "loop", "roles", "regions")
"""Passes that come with aiflame (intra/presets.py)."""


def parse_intra(text: str, *, warps: str = "", launches: int = 0, memory: int = 0) -> str:
    """`loads,mma:attention`, `mine.py,loads` → JSON; empty if there are no passes."""
    if not text:
        return ""
    names, _, kernels = text.partition(":")
    chosen = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    files = [name for name in chosen if name.endswith(".py")]
    passes = [name for name in chosen if name not in files]
    for file in files:
        if not Path(file).is_file():
            raise AiflameError(f"--intra {text}: there is no file {file}")
    for name in passes:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) or (not files and name not in PRESETS):
            raise AiflameError(
                f"--intra {text}: {name!r} is none of {', '.join(PRESETS)}; a pass of your own comes with its file: mine.py,{name}"
            )
    try:
        re.compile(kernels)
    except re.error as error:
        raise AiflameError(f"--intra {text}: {kernels!r} is no regular expression for names of kernels: {error}") from None
    asked: dict[str, object] = {"passes": passes, "files": [str(Path(file).absolute()) for file in files], "kernels": kernels}
    if warps:
        if not re.fullmatch(r"\d+(,\d+)*", warps):
            raise AiflameError(f"--intra-warps {warps}: numbers of warps, like 0,4")
        asked["warps"] = sorted({int(number) for number in warps.split(",")})
    if launches:
        asked["launches"] = launches
    if memory:
        asked["memory"] = memory
    return json.dumps(asked)
