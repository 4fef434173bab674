"""Runs a cell as IPython would, and removes our frames from an error's traceback."""

from __future__ import annotations

import ast
import contextlib
import linecache
from pathlib import Path
from types import CodeType
from typing import Any

from IPython.core.error import UsageError


def compiled(shell: Any, cell: str) -> list[CodeType]:
    """The code of a cell: its statements, and a last expression whose value is shown."""
    source = shell.transform_cell(cell)
    name = shell.compile.cache(source, shell.execution_count, raw_code=cell)
    try:
        tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
        shown = tree.body[-1:] if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";") else []
        whole = ast.Module(tree.body[: len(tree.body) - len(shown)], tree.type_ignores)
        return [shell.compile(whole, name, "exec"), *([shell.compile(ast.Interactive(shown), name, "single")] if shown else [])]
    except SyntaxError as error:
        reason = str(error.msg)
        if "outside" in reason and ("await" in reason or "async" in reason):
            raise UsageError('a cell that awaits is recorded by `with aiflame.record("cell.aiflame"):` in it') from None
        raise _as_without_us(shell, error) from None


def run(shell: Any, codes: list[CodeType]) -> None:
    try:
        for code in codes:
            exec(code, shell.user_ns)
    except BaseException as error:
        if not hasattr(error, "_render_traceback_"):
            own = error.__traceback__.tb_next if error.__traceback__ is not None else None
            lines = shell.InteractiveTB.structured_traceback(type(error), error, own, tb_offset=0)
            with contextlib.suppress(AttributeError):
                error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]  # IPython asks exceptions for it
        raise


def names(shell: Any) -> dict[str, str]:
    """`In[3]` for each cell, by the name of the file as which it was compiled."""
    labels = {Path(file).name: shell.compile.format_code_name(file) for file in list(linecache.cache)}
    return {file: label[1] for file, label in labels.items() if label}


def _as_without_us(shell: Any, error: SyntaxError) -> Exception:
    """IPython shows every SyntaxError inside a magic with our frames, so this returns another class with the same name."""
    lines = shell.SyntaxTB.structured_traceback(type(error), error, [])
    shown: type[Exception] = type(type(error).__name__, (Exception,), {"_render_traceback_": lambda _: lines})
    return shown(str(error))
