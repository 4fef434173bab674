"""Finds the installed package of a source file, by its path."""

from __future__ import annotations

import polars as pl

STANDARD_LIBRARY = "python"
GENERATED = "generated"
_INSTALLED = r"(?:^|.*[/\\])(?:site|dist)-packages[/\\]([^/\\]+?)(?:\.pyc?)?(?:[/\\].*)?$"
_TORCH = r"(?:^|.*[/\\])torch[/\\](?:nn|optim|utils|autograd|cuda|distributed|amp|fx|_\w+|functional\.py)(?:[/\\]|\.py|$)"
_STANDARD = r"^<frozen |(?:^|[/\\])lib(?:64)?[/\\]python\d[\d.]*t?[/\\]|^/usr/(?:include|lib|lib64)/"
_MODULE_FILE = r"[/\\]python\d[\d.]*t?[/\\](?:lib-dynload[/\\])?([^/\\.]+)"
_MODULE_FROZEN = r"^<frozen ([\w.]+)"
_TYPED = r"^<(?:string|stdin|ipython-input)"
"""Code that its author typed or passed as text: it has no file, but is their own."""
_GENERATED = r"^<|[/\\]torchinductor_[^/\\]+[/\\]|[/\\]c[a-z2-7]{51}\.py$"
_OURS = r"(?:^|[/\\])aiflame[/\\](?:target|intra)[/\\]"


def package(file: str = "file") -> pl.Expr:
    """`torch` for a file of an installed package, `python` for one of the standard library or of the system, `generated` for code that a
    compiler wrote; "" for the program's own files and for code without a file."""
    path = pl.col(file)
    return (
        pl.when(path.str.contains(_INSTALLED))
        .then(path.str.replace(_INSTALLED, "${1}"))
        .when(path.str.contains(_STANDARD))
        .then(pl.lit(STANDARD_LIBRARY))
        .when(path.str.contains(_TORCH))
        .then(pl.lit("torch"))
        .when(path.str.contains(_OURS))
        .then(pl.lit("aiflame"))
        .when(path.str.contains(_GENERATED) & ~path.str.contains(_TYPED))
        .then(pl.lit(GENERATED))
        .otherwise(pl.lit(""))
    )


def library(file: str = "file") -> pl.Expr:
    """The same, with the module's name for files of Python's standard library: `json`."""
    module = pl.col(file).str.extract(_MODULE_FILE)
    frozen = pl.col(file).str.extract(_MODULE_FROZEN)
    return pl.when(package(file) == STANDARD_LIBRARY).then(pl.coalesce(module, frozen, pl.lit(STANDARD_LIBRARY))).otherwise(package(file))


def package_of(file: str) -> str:
    """The same for one file."""
    return str(pl.DataFrame({"file": [file]}).select(package()).item())
