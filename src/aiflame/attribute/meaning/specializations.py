"""Specializations of Triton kernels: the readable and the full name of each launch's kernel.

Two specializations may have the same readable name: it has the settings that people choose (constexprs, warps, stages), and they differ in
something else. Then all of them get the first recorded suffix that distinguishes them: the types of their arguments, otherwise a few
letters that are the same in every run. The suffix is chosen here and not in the program, so that a name depends neither on the order in
which kernels were loaded nor on the process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.tables.interface import Tables
from aiflame.resolve.names.readable import LONGEST_FULL, clean, cut
from aiflame.values import dataclass

_VARIANTS = {
    "process": pl.UInt32, "variant": pl.UInt32, "name": pl.String, "readable": pl.String, "detailed": pl.String, "binary": pl.String,
}  # fmt: skip

_U32 = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class _Variant:
    process: int
    row: int
    compiled: str
    readable: str
    details: dict[str, Any]

    @property
    def suffixes(self) -> tuple[str, ...]:
        texts = self.details.get("suffixes")
        return tuple(str(one) for one in texts) if isinstance(texts, list) else ()

    @property
    def binary(self) -> str:
        text = self.details.get("binary")
        return text if isinstance(text, str) else ""


def variants(profile: Tables) -> pl.DataFrame:
    """A row for each specialization that was loaded: process, variant (its row), name (as compiled), readable, detailed (with everything
    that is recorded), binary (SHA-256 of its cubin)."""
    if not profile.has("kernel_variants"):
        return pl.DataFrame(schema=_VARIANTS)
    loaded = list(
        _read(profile.table("kernel_variants").select("process", "id", "name", "readable", "details").sort("process", "id").rows())
    )
    names = distinct_names((one.readable, one.suffixes) for one in loaded)
    rows = [(one.process, one.row, one.compiled, name, _full_text(one), one.binary) for one, name in zip(loaded, names, strict=True)]
    return pl.DataFrame(rows, schema=_VARIANTS, orient="row")


@dataclass(frozen=True, slots=True)
class Specializations:
    """The specializations of a profile, by number."""

    rows: pl.DataFrame
    """specialization (from 1), readable, detailed"""
    _of_kernels: pl.DataFrame
    """process, variant, item, specialization"""

    @staticmethod
    def of(profile: Tables, items: pl.DataFrame) -> Specializations:
        """`items`: item, name. The address of a function may be used again for another kernel: a specialization counts only with the
        kernel's name as compiled."""
        loaded = variants(profile)
        rows = loaded.select("readable", "detailed").unique(maintain_order=True).with_row_index("specialization", offset=1)
        numbers = loaded.join(rows, on=["readable", "detailed"], maintain_order="left").join(items.select("item", "name"), on="name")
        key = ["process", "variant", "item"]
        return Specializations(rows, numbers.select(*key, "specialization").unique(key, keep="first"))

    def numbers(self, process: _U32, variant: _U32, item: _U32) -> _U32:
        """The specialization of each execution, 0 for none."""
        if self._of_kernels.is_empty():
            return np.zeros(len(process), dtype=np.uint32)
        executions = pl.DataFrame({"process": process, "variant": variant, "item": item})
        numbered = executions.join(self._of_kernels, on=["process", "variant", "item"], how="left", maintain_order="left")
        return numbered["specialization"].fill_null(0).to_numpy()


def separate_specializations(profile: Tables, kernels: pl.DataFrame, counts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Kernels (name, readable, detailed) and samples (function, cubin …, in that order), with a separate name for each specialization of a
    function.

    A sample has a cubin, and a cubin the specialization for which it was compiled. The specializations of a function are separated if this
    is recorded for all its sampled cubins; the samples of other functions count for all kernels of their name."""
    if not profile.has("kernel_binaries") or "readable" not in kernels.columns:
        return kernels, counts
    own = pl.concat_str("name", "readable", "detailed", separator="\n")
    launched = kernels.filter(pl.col("readable").is_not_null()).select("name", own=own).unique()
    compiled = variants(profile).filter(pl.col("binary") != "").join(profile.table("kernel_binaries"), on="binary")
    compiled = (
        compiled.select("cubin", function="name", own=own).join(launched, on="own", how="semi").unique(["cubin", "function"], keep="none")
    )
    sampled = counts.select("function", "cubin").unique().join(compiled, on=["function", "cubin"], how="left")
    separable = sampled.group_by("function").agg(pl.col("own").is_not_null().all()).filter("own")["function"]
    if not len(separable):
        return kernels, counts
    named = pl.col("name").is_in(separable.implode()) & pl.col("readable").is_not_null()
    kernels = kernels.with_columns(name=pl.when(named).then(own).otherwise("name"))
    counts = counts.join(
        compiled.filter(pl.col("function").is_in(separable.implode())), on=["function", "cubin"], how="left", maintain_order="left"
    )
    counts = counts.with_columns(function=pl.coalesce("own", "function")).drop("own")
    return kernels, counts.sort("process", "device", "function", "cubin", "window", maintain_order=True)


def distinct_names(named: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Distinct names from readable names and their possible suffixes, the most readable suffix first; the last suffix is always
    distinct."""
    named = list(named)
    alike: dict[str, set[tuple[str, ...]]] = {}
    for readable, suffixes in named:
        if suffixes:
            alike.setdefault(readable, set()).add(suffixes)
    return [_with_suffix(readable, suffixes, alike.get(readable, set())) for readable, suffixes in named]


def _with_suffix(readable: str, suffixes: tuple[str, ...], alike: set[tuple[str, ...]]) -> str:
    if len(alike) < 2 or not suffixes:
        return readable
    others = [each for other in alike - {suffixes} for each in other[:-1]]
    return f"{readable}_{next((each for each in suffixes[:-1] if each not in others), suffixes[-1])}"


def _read(rows: Iterable[tuple[int, int, str, str, str]]) -> Iterator[_Variant]:
    for process, row, name, readable, text in rows:
        try:
            details = json.loads(text)
        except ValueError:
            details = {}
        yield _Variant(process, row, name, clean(readable) or name, details if isinstance(details, dict) else {})


def _full_text(one: _Variant) -> str:
    """`vadd[BLOCK=256, num_warps=8, num_stages=2](x: *fp32, n: i32)`."""
    constexprs, signature = (value if isinstance(value := one.details.get(key), dict) else {} for key in ("constexprs", "signature"))
    settings = {key: one.details[key] for key in ("num_warps", "num_stages", "num_ctas") if isinstance(one.details.get(key), int)}
    if settings.get("num_ctas") == 1:
        del settings["num_ctas"]
    chosen = ", ".join(f"{key}={value}" for key, value in (constexprs | settings).items())
    arguments = ", ".join(f"{key}: {value}" for key, value in signature.items())
    mark = f" {one.suffixes[-1]}" if one.suffixes else ""
    return cut(clean(f"{one.compiled}[{chosen}]({arguments}){mark}"), LONGEST_FULL)
