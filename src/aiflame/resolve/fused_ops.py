"""The source ops of compiled kernels, as recorded in `kernel_origins`: sets of ops, and the set of each call of a kernel.

A row's JSON may come from another version of aiflame, or be damaged: rows that cannot be parsed are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from aiflame.resolve.names.readable import LONGEST_FULL, clean, cut
from aiflame.values import dataclass, field

PARTS = {
    "set": pl.UInt32,
    "op": pl.String,
    "layer": pl.String,
    "outer": pl.String,
    "type": pl.String,
    "file": pl.String,
    "line": pl.UInt32,
    "function": pl.String,
    "code": pl.String,
    "backward": pl.Boolean,
    "share": pl.Int64,
}
CALLS = {
    "process": pl.UInt32,
    "kernel": pl.String,
    "compiler": pl.String,
    "module": pl.String,
    "file": pl.String,
    "line": pl.UInt32,
    "library": pl.String,
    "set": pl.UInt32,
}
LARGEST_SHARE = 1 << 40
XLA = "xla"

_TEXTS = ("op", "layer", "outer", "type", "file", "function", "code")
_Part = tuple[str, str, str, str, str, int, str, str, bool, int]


@dataclass(frozen=True, slots=True)
class Provenance:
    parts: pl.DataFrame
    """PARTS: the ops of each set, numbered from 1."""
    calls: pl.DataFrame
    """CALLS: a call of a kernel in generated code; `line`: 0 if unknown; `library`: path of the library with a C++ kernel."""
    labels: list[str]
    """A readable label for each set; empty for set 0."""

    def joint(self, sets: list[int]) -> int:
        """The union of these sets, built when the profile was read."""
        return self._joint.get(tuple(sorted(set(sets))), 0)

    _joint: dict[tuple[int, ...], int] = field(default_factory=dict)


def provenance(origins: pl.DataFrame) -> Provenance:
    """`origins`: the table `kernel_origins`."""
    sets = _Sets()
    calls: list[tuple[object, ...]] = []
    for process, kernel, compiler, module, file, text in origins.select(
        "process", "kernel", "compiler", "module", "file", "origins"
    ).iter_rows():
        fields = _parsed(text)
        number = sets.number(tuple(_part(op) for op in fields.get("ops", ()) if isinstance(op, dict)))
        line = _whole(fields.get("line"), (1 << 32) - 1)
        kernel = _as_compiled(kernel) if compiler == XLA else kernel
        if number:
            calls.append((process, kernel, compiler, module, file, line, _text(fields.get("library")), number))
    frame = pl.DataFrame(calls, schema=CALLS, orient="row").unique(maintain_order=True)
    for keys in (["process", "file", "line"], ["process", "library"], ["process", "kernel"]):
        for group in frame.group_by(keys).agg(pl.col("set").unique().sort())["set"]:
            sets.join(tuple(group.to_list()))
    return Provenance(pl.DataFrame(list(sets.rows()), schema=PARTS, orient="row"), frame, sets.labels(), sets.joint)


def label(parts: list[tuple[str, str]]) -> str:
    """(op, layer) pairs as `fused: aten::add (layers.2), aten::native_layer_norm (layers.3.norm)`."""
    named = list(dict.fromkeys(f"{op} ({layer})" if layer else op for op, layer in parts))
    return ("fused: " if len(named) > 1 else "") + ", ".join(named)


def kernel_labels(sources: Provenance) -> dict[str, str]:
    """For each kernel's name, the source ops of all its calls."""
    sets_of: dict[str, dict[int, None]] = {}
    for kernel, number in sources.calls.select("kernel", "set").iter_rows():
        sets_of.setdefault(kernel, {})[number] = None
    ops: dict[int, list[tuple[str, str]]] = {}
    for number, op, layer in sources.parts.select("set", "op", "layer").iter_rows():
        ops.setdefault(number, []).append((op, layer))
    return {kernel: cut(label([pair for number in sets for pair in ops[number]]), LONGEST_FULL) for kernel, sets in sets_of.items()}


def with_kernels(symbols: pl.DataFrame, modules: pl.DataFrame, sources: Provenance) -> pl.DataFrame:
    """Inductor builds each C++ kernel into a library of its own, whose function is called `kernel`: it gets the kernel's name, and its
    source ops as a full name. `symbols` has process, id (of the module), name and full_name."""
    built = (
        sources.calls.filter(pl.col("library") != "").select("process", "library", "kernel").unique(["process", "library"], keep="first")
    )
    if built.is_empty():
        return symbols
    labels = kernel_labels(sources)
    names = built.join(modules.select("process", "id", library="path"), on=["process", "library"]).select(
        "process", "id", "kernel", made_from=pl.col("kernel").replace_strict(labels, return_dtype=pl.String)
    )
    inside = pl.col("kernel").is_not_null() & pl.col("name").str.contains(r"^kernel(_py)?\b")
    named = pl.col("name").str.replace("kernel", pl.col("kernel"), literal=True)
    return (
        symbols.join(names.unique(["process", "id"]), on=["process", "id"], how="left", maintain_order="left")
        .with_columns(
            name=pl.when(inside).then(named).otherwise("name"),
            full_name=pl.when(inside).then(pl.format("{}: {}", named, "made_from")).otherwise("full_name"),
        )
        .drop("kernel", "made_from")
    )


def _as_compiled(instruction: str) -> str:
    """The name of the kernel that XLA makes for an instruction."""
    return re.sub(r"[^\w]", "_", instruction)


class _Sets:
    """Numbers for sets; equal sets have the same number."""

    def __init__(self) -> None:
        self._known: dict[tuple[_Part, ...], int] = {(): 0}
        self.joint: dict[tuple[int, ...], int] = {}

    def number(self, parts: tuple[_Part, ...]) -> int:
        return self._known.setdefault(parts, len(self._known))

    def join(self, sets: tuple[int, ...]) -> None:
        if sets in self.joint:
            return
        if len(sets) == 1:
            self.joint[sets] = sets[0]
            return
        all_parts = list(self._known)
        self.joint[sets] = self.number(tuple(dict.fromkeys(part for each in sets for part in all_parts[each])))

    def rows(self) -> Iterator[tuple[object, ...]]:
        for parts, number in self._known.items():
            for part in parts:
                yield (number, *part)

    def labels(self) -> list[str]:
        return [label([(part[0], part[1]) for part in parts]) for parts in self._known]


def _parsed(text: str | None) -> dict[str, Any]:
    try:
        fields = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) and isinstance(fields.get("ops", []), list) else {}


def _part(op: dict[str, Any]) -> _Part:
    name, layer, outer, kind, file, function, code = (_text(op.get(key)) for key in _TEXTS)
    line, share = _whole(op.get("line"), (1 << 32) - 1), max(1, _whole(op.get("bytes"), LARGEST_SHARE))
    return name or "[unknown op]", layer, outer, kind, file, line, function, code, op.get("backward") is True, share


def _text(value: object) -> str:
    return clean(value) if isinstance(value, str) else ""


def _whole(value: object, most: int) -> int:
    return min(max(value, 0), most) if isinstance(value, int) and not isinstance(value, bool) else 0
