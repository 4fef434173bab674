"""Divides the time of a compiled kernel over the ops from which it was fused.

The division is an estimate, by the bytes that each op would move on its own.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.apportion import divide
from aiflame.attribute.arrays.lookup import find
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.stacks.table import stack_table
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_words import is_frame_of, module_of_native
from aiflame.profile.tables.interface import Tables
from aiflame.resolve.fused_ops import Provenance, provenance
from aiflame.values import dataclass

ESTIMATED = ", fused kernels divided by estimated bytes"
"""Added to the label of a metric that was divided."""


@dataclass(frozen=True, slots=True)
class Division:
    """Values of kernels, divided over the ops from which they were fused; the value of a kernel that is not compiled stays whole."""

    item: Ints
    """Row of the value that was divided; sorted."""
    part: Ints
    """Row of `KernelOrigins.parts`, -1: not compiled."""
    value: Ints
    """Whole numbers; those of an item add up to its value."""


@dataclass(frozen=True, slots=True)
class KernelOrigins:
    """The source ops of all compiled code of a profile, in sets: a set has the ops from which one call of one kernel was fused."""

    parts: pl.DataFrame
    """`set` (u32, from 1; sorted), `op` (`aten::native_layer_norm`), `layer` (path below the module whose call was compiled: below the
    innermost layer of the stack; empty: that module itself), `outer` (path of the compiled code's outermost layer, which `layer` begins
    with: to be cut off where the stack has no layer at all), `type` (class of the layer), `file`, `line`, `function`, `code` (the line's
    text), `backward` (bool), `share` (i64, at least 1)."""
    labels: list[str]
    """For each set its ops as text: `fused: aten::add, aten::native_layer_norm (layers.3.norm)`; empty for set 0."""
    key: Ints
    """process << 32 | stack id, sorted: stacks that run in generated code."""
    of_key: Ints
    """The set of each key."""
    kernels: pl.DataFrame
    """`process`, `kernel` (name as compiled), `set`: for all calls of kernels with that name together."""

    def of_stacks(self, process: Ints, stack: Ints) -> Ints:
        """The set of each stack, 0 if it runs no compiled code."""
        at, there = find(self.key, process << 32 | stack)
        return np.append(self.of_key, 0)[np.where(there, at, -1)]

    def of_kernels(self, process: Ints, stack: Ints, name: pl.Series) -> Ints:
        """The set of each kernel (its name as compiled) that was launched at a stack: by the stack, otherwise by the name."""
        sets = self.of_stacks(process, stack)
        if not len(self.kernels):
            return sets
        wanted = pl.DataFrame({"process": process.astype(np.uint32), "kernel": name})
        by_name = wanted.join(self.kernels, on=["process", "kernel"], how="left", maintain_order="left")["set"].fill_null(0)
        return np.where(sets > 0, sets, by_name.to_numpy().astype(np.int64))

    def divide(self, sets: Ints, value: Ints) -> Division:
        """Divides each value over the parts of its set, in proportion to their shares. In the sum over a set, each part is exact to within
        a few units, however small the values are."""
        of_set = self.parts["set"].to_numpy().astype(np.int64)
        share = self.parts["share"].to_numpy().astype(np.int64)
        value = value.astype(np.int64)
        first, end = np.searchsorted(of_set, sets), np.searchsorted(of_set, sets, side="right")
        several = (end - first > 1) & (value != 0)
        whole = np.flatnonzero(~several)
        items, parts, values = [whole], [np.where(end > first, first, -1)[whole]], [value[whole]]
        for number in np.unique(sets[several]).tolist():
            item = np.flatnonzero(several & (sets == number))
            part = np.arange(*np.searchsorted(of_set, [number, number + 1]))
            site, point, cell = divide(item, 0 * item, value[item], part, 0 * part, share[part])
            items, parts, values = [*items, point], [*parts, site], [*values, cell]
        item, row, amount = (np.concatenate(each) for each in (items, parts, values))
        order = np.lexsort((row, item))
        return Division(item[order], row[order], amount[order])


@once
def kernel_origins(profile: Analysis) -> KernelOrigins:
    """The source ops of all compiled code of the profile; without any, every stack has set 0."""
    sources = provenance(profile.table("kernel_origins"))
    key, of_key = _of_stacks(profile, sources)
    kernels = _joined(sources, sources.calls, "kernel")
    return KernelOrigins(sources.parts, sources.labels, key, of_key, kernels)


def _of_stacks(profile: Tables, sources: Provenance) -> tuple[Ints, Ints]:
    """The innermost frame of generated Python decides, by its line; in threads without one (OpenMP's), the innermost function of a library
    that was built for one kernel."""
    none = np.zeros(0, dtype=np.int64)
    if sources.calls.is_empty():
        return none, none
    stacks = stack_table(profile)
    if stacks.rows.is_empty():
        return none, none
    python, native = _python_frames(profile, sources), _native_frames(profile, sources, stacks.rows)
    sets = np.zeros(len(stacks.caller), dtype=np.int64)
    for frames in (native, python):
        at = stacks.rows.join(frames, on=["process", "frame"], how="left", maintain_order="left")["set"]
        place = stacks.nearest(at.is_not_null().to_numpy())
        inherited = at.fill_null(0).to_numpy().astype(np.int64)[np.maximum(place, 0)]
        sets = np.where(place >= 0, inherited, sets)
    kept = sets > 0
    return stacks.keys.key[kept], sets[kept]


def _python_frames(profile: Tables, sources: Provenance) -> pl.DataFrame:
    """Frame words of generated Python (process, frame), with their set: 0 at lines that call no kernel."""
    files = sources.calls.select("process", "file").unique()
    lines = _joined(sources, sources.calls.filter(pl.col("line") > 0), "file", "line")
    words = (
        profile.table("symbols")
        .filter(is_frame_of(FrameKind.PYTHON))
        .select("process", "frame", "file", "line")
        .join(files, on=["process", "file"])
    )
    return words.join(lines, on=["process", "file", "line"], how="left").select("process", "frame", pl.col("set").fill_null(0))


def _native_frames(profile: Tables, sources: Provenance, stacks: pl.DataFrame) -> pl.DataFrame:
    libraries = _joined(sources, sources.calls.filter(pl.col("library") != ""), "library")
    modules = profile.table("modules").select("process", "path", module="id").join(
        libraries, left_on=["process", "path"], right_on=["process", "library"]
    )  # fmt: skip
    words = stacks.filter(is_frame_of(FrameKind.NATIVE)).select("process", "frame").unique().with_columns(module=module_of_native())
    return words.join(modules, on=["process", "module"]).unique(["process", "frame"]).select("process", "frame", "set")


def _joined(sources: Provenance, calls: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """The set of all calls that have the same `keys` in a process, merged."""
    groups = calls.group_by("process", *keys, maintain_order=True).agg(pl.col("set").unique().sort())
    sets = pl.Series("set", [sources.joint(each.to_list()) for each in groups["set"]], pl.UInt32)
    return groups.with_columns(sets)
