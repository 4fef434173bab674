"""`aiflame annotate`: one kernel, its source and its instructions side by side, with what they waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aiflame.analyze.kernel.annotate import annotate as ask
from aiflame.analyze.kernel.annotate_json import to_json
from aiflame.analyze.kernel.choice import hottest, kernels
from aiflame.analyze.kernel.source_text import SourceTexts
from aiflame.cli.say import say_json
from aiflame.cli.view import Ranks, SourcePath, opened, source_folder
from aiflame.errors import AiflameError
from aiflame.profile.opening import SUFFIX
from aiflame.render.terminal.annotate import LEAST_PERCENT, print_annotation


def annotate(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[PROFILE] KERNEL",
            show_default=False,
            help="The profile (default: the newest here), and the kernel: its name, a part of it, or a regular expression.",
        ),
    ],
    cubin: Annotated[
        str, typer.Option("--cubin", metavar="CRC", help="Which of the cubins that have the kernel (default: the hottest).")
    ] = "",
    sass: Annotated[bool, typer.Option("--sass", help="In the order of the code, each instruction with its source line.")] = False,
    least: Annotated[
        float, typer.Option("--least", min=0, max=100, metavar="PERCENT", help="Fold instructions with less of the samples; 0 shows all.")
    ] = LEAST_PERCENT,
    source_path: SourcePath = None,
    ranks: Ranks = "",
    json: Annotated[bool, typer.Option("--json", help="Machine-readable, to stdout.")] = False,
) -> None:
    """Show a kernel's source and SASS side by side, and what its warps waited for."""
    if len(names) > 2:
        raise typer.BadParameter(f"expected [PROFILE] KERNEL, not {len(names)} names: put the kernel's name in quotes")
    profile = opened(Path(names[0]) if len(names) == 2 or _is_profile(names[0]) else None, ranks)
    if len(names) == 1 and _is_profile(names[0]):
        raise AiflameError(f"which kernel of {names[0]}? {hottest(kernels(profile.store))}")
    answer = ask(profile.store, names[-1], _crc(cubin), SourceTexts(profile.store, source_folder(source_path)))
    if json:
        say_json(to_json(answer))
    else:
        print_annotation(answer, least, by_code=sass)


def _is_profile(name: str) -> bool:
    return name.rstrip("/").endswith(SUFFIX) and Path(name).is_dir()


def _crc(text: str) -> int | None:
    try:
        return int(text, 16) if text else None
    except ValueError:
        raise typer.BadParameter(f"--cubin {text}: a cubin is named by 16 hexadecimal digits") from None
