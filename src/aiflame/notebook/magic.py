"""The magic `aiflame`: records a statement or a cell in this process, and returns its profile, which a notebook shows as a report."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import re
import shlex
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

from aiflame import api
from aiflame.errors import AiflameError
from aiflame.notebook.cell import compiled, names, run
from aiflame.recorder.options import RecordOptions, parse_size

WALL_RATE = 49
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")


@magics_class
class AiflameMagics(Magics):
    shell: Any

    @magic_arguments()
    @argument("-F", "--cpu-rate", type=int, default=199, metavar="HZ", help="samples per second of each thread's CPU time (default: 199)")
    @argument("--wall", action="store_true", help=f"also sample threads that wait, {WALL_RATE} times per second")
    @argument("-o", "--output", metavar="PROFILE", help="keep the profile under this name; one of that name is replaced")
    @argument("--as", dest="name", metavar="NAME", help="also keep the profile in this variable")
    @argument("--embed", metavar="SIZE", help="put at most this much of report into the notebook: 32M, 0 for none (default: 4M)")
    @argument("statement", nargs=argparse.REMAINDER, help="the statement, for a magic with a single %%")
    @no_var_expand
    @line_cell_magic
    def aiflame(self, line: str, cell: str | None = None) -> api.Profile | None:
        """Record a statement (%aiflame) or the cell (%%aiflame) and show where its time went."""
        options, statement = _parsed(self.aiflame.parser, line)
        if cell is not None and statement:
            raise UsageError(f"%%aiflame has no place for {statement!r}: the cell begins in the next line")
        if cell is None and not statement:
            raise UsageError("%aiflame needs a statement; %%aiflame records the whole cell")
        if options.name and not options.name.isidentifier():
            raise UsageError(f"--as {options.name}: no name of a variable")
        return self._record(options, statement if cell is None else cell)

    def _record(self, options: argparse.Namespace, source: str) -> api.Profile | None:
        codes = compiled(self.shell, source)
        if around := os.environ.get("AIFLAME_PROFILE"):
            print(f"aiflame: `aiflame record` records this kernel already: its cells are in {around} when the kernel has ended")
            run(self.shell, codes)
            return None
        path = Path(options.output).expanduser() if options.output else _new_path(self.shell.execution_count)
        with contextlib.ExitStack() as recording:
            try:
                wanted = RecordOptions(cpu_rate=options.cpu_rate, wall_rate=WALL_RATE if options.wall else 0)
                embed = parse_size(options.embed) if options.embed else api.MOST_EMBEDDED
                recording.enter_context(api.record(path, wanted, overwrite=True))
            except (AiflameError, OSError) as error:
                raise UsageError(f"nothing ran: {error}") from None
            try:
                run(self.shell, codes)
            except BaseException as error:
                recording.close()
                self._keep_of_failed(path, embed, options.name, interrupted=isinstance(error, KeyboardInterrupt))
                raise
        return self._opened(path, embed, options.name)

    def _opened(self, path: Path, embed: int, name: str | None) -> api.Profile:
        try:
            profile = api.open(path)
        except AiflameError as error:
            raise UsageError(str(error)) from None
        profile.embed, profile.cells = embed, names(self.shell)
        if name:
            self.shell.user_ns[name] = profile
        return profile

    def _keep_of_failed(self, path: Path, embed: int, name: str | None, *, interrupted: bool) -> None:
        """An interrupted cell shows where it was slow; a cell with an error shows only that error."""
        with contextlib.suppress(Exception):  # the cell's own error matters more
            if interrupted or name:
                profile = self._opened(path, embed, name)
                if interrupted:
                    display(profile)


def _parsed(parser: argparse.ArgumentParser, line: str) -> tuple[argparse.Namespace, str]:
    """The options, and the statement after them, unchanged."""
    words = list(_WORD.finditer(line))
    try:
        options = parser.parse_args([shlex.split(word[0])[0] if word[0][0] == "-" or word[0][0] in "\"'" else word[0] for word in words])
    except ValueError as error:
        raise UsageError(f"{line}: {error}") from None
    count = len(options.statement)
    return options, line[words[-count].start() :].removeprefix("--").strip() if count else ""


def _new_path(number: int) -> Path:
    """A path for a profile that lives as long as this notebook's kernel."""
    return Path(tempfile.mkdtemp(dir=_folder())) / f"cell-{number}.aiflame"


@cache
def _folder() -> str:
    folder, here = tempfile.mkdtemp(prefix="aiflame-"), os.getpid()
    atexit.register(_remove, folder, here)
    return folder


def _remove(folder: str, maker: int) -> None:
    """A forked child that ends does not remove it."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)
