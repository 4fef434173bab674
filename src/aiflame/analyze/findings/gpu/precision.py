"""Arithmetic in higher precision than needed: without tensor cores, in float64, or in a layer that differs from its sisters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from aiflame.analyze.device.limits import device
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.gpu.catalogue import FEW_RECORDS, FEW_SAMPLES, least
from aiflame.analyze.findings.gpu.facts import WORTH_READING, Facts, Kernel, at
from aiflame.analyze.findings.gpu.sass import DOUBLE, TENSOR
from aiflame.analyze.layer_groups import around, collapsed, escaped, search, within
from aiflame.attribute.tree import GPU_TIME
from aiflame.resolve.device.kernel_names import full_name, short_name

_MULTIPLIES = ("gemm", "convolution")
_WORDS = {
    "fp64": "float64", "fp32": "float32", "tf32": "TF32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8", "fp4": "float4",
}  # fmt: skip
"""Types of the inputs in short names of matrix products."""
_TEMPLATES = (
    ("bfloat16", r"bfloat16"),
    ("float16", r"\b(__half|Half|half)\b"),
    ("float32", r"\bfloat\b"),
    ("float64", r"\bdouble\b"),
)
"""Types in the template arguments of other kernels: the narrowest counts, since intermediate values have higher precision."""
_SIMT = r"sgemm|simt|ffma|f32f32|gemmsn|scudnn"
"""Names of matrix products that tensor cores could compute; products with a vector (gemv) wait for memory."""
_SPEED = {"float64": 0, "float32": 1, "TF32": 2, "float16": 3, "bfloat16": 3, "float8": 4, "float4": 5}
SOME_DOUBLE = 0.1
"""A share of a kernel's samples at instructions for float64; each of them comes with others that convert or load."""
FEW_LAYERS = 3
GAIN_OF_TENSOR_CORES = 0.7
GAIN_OF_SINGLE = 0.5
"""The likely gain: half the bytes; arithmetic gains more."""


@lru_cache(maxsize=1 << 12)
def precision(name: str) -> str:
    """The type with which a kernel computes, from its name as compiled; "" if the name does not show it."""
    words = short_name(name).split()
    kind = next((_WORDS[word] for word in words if word in _WORDS), "")
    if kind == "float32" and ("tf32" in name.lower() or words[-1] == "(nvjet)"):
        return "TF32"  # all kernels of nvjet use tensor cores
    full = full_name(name)
    return kind or next((kind for kind, words in _TEMPLATES if re.search(words, full)), "")


def precisions(facts: Facts) -> Iterator[Finding]:
    odd = odd_layers(facts)
    if odd:
        yield _of_layers(facts, odd)
    yield from _no_tensor_cores(facts, [row["layer"] for row in odd])
    yield from _double(facts)


def _no_tensor_cores(facts: Facts, odd: Sequence[str]) -> Iterator[Finding]:
    """`odd`: layers that differ from their sisters. A separate finding reports them and their kernels."""
    slow = [
        kernel
        for kernel in facts.kernels
        if kernel.family in _MULTIPLIES and not within(kernel.layer, odd) and _has_tensor_cores(kernel) and _is_simt(facts, kernel)
    ]
    took = sum(kernel.took for kernel in slow)
    share = facts.share(took)
    if sum(kernel.launches for kernel in slow) >= FEW_RECORDS and share >= least("no-tensor-cores"):
        what = f"multiplies matrices in float32 without tensor cores: {_launched(slow)}"
        yield _finding(facts, slow, "no-tensor-cores", took, what, share * GAIN_OF_TENSOR_CORES)


def _has_tensor_cores(kernel: Kernel) -> bool:
    limits = device(kernel.device)
    return limits is not None and limits.tensor_cores_32


def _is_simt(facts: Facts, kernel: Kernel) -> bool:
    if precision(kernel.name) != "float32" or not re.search(_SIMT, kernel.name.lower()):
        return False
    sampled = facts.sampled(kernel.name) if kernel.share >= WORTH_READING else None
    return sampled is None or not any(one.opcode in TENSOR for one in sampled.listing)


def _double(facts: Facts) -> Iterator[Finding]:
    wide = [kernel for kernel in facts.kernels if _is_double(facts, kernel)]
    took = sum(kernel.took for kernel in wide)
    share = facts.share(took)
    if sum(kernel.launches for kernel in wide) >= FEW_RECORDS and share >= least("double-precision"):
        what = f"computes in double precision (float64): {_launched(wide)}"
        yield _finding(facts, wide, "double-precision", took, what, share * GAIN_OF_SINGLE)


def _is_double(facts: Facts, kernel: Kernel) -> bool:
    sampled = facts.sampled(kernel.name) if kernel.share >= WORTH_READING else None
    if sampled is not None and sampled.total >= FEW_SAMPLES:
        return sampled.part(pl.col("opcode").is_in(DOUBLE)) >= SOME_DOUBLE or precision(kernel.name) == "float64"
    return precision(kernel.name) == "float64"


def _launched(kernels: Sequence[Kernel]) -> str:
    first = kernels[0]
    launches = sum(kernel.launches for kernel in kernels)
    layer = f", most in {first.layer}" if first.layer else ""
    return f"{first.short}{f' and {len(kernels) - 1} more' if len(kernels) > 1 else ''} ({launches:,} launches{layer}{at(first.place)})"


def _finding(facts: Facts, kernels: Sequence[Kernel], kind: str, took: int, doing: str, gain: float) -> Finding:
    first = kernels[0]
    view = Evidence("flame", GPU_TIME.name, "code", f"^{escaped(first.short)}$", first.name, place=first.place)
    return Finding(f"The GPU {doing}, for {facts.took(took)}", facts.share(took), view, kind, gain)


def odd_layers(facts: Facts) -> list[dict[str, Any]]:
    """Layers whose matrix products have higher precision than those of most layers alike, if they cost enough: the worst first.

    A wrapper adds a name to the paths within its layer (`layers.5.inner.first` beside `layers.4.first`): if a layer has no sisters by its
    whole path, all work of its numbered layer is compared instead, `layers.5` with `layers.4`."""
    products = _products(facts)
    numbered = products.with_columns(layer=pl.col("layer").map_elements(_numbered, return_dtype=pl.List(pl.String))).explode("layer")
    for rows in (products, numbered.drop_nulls("layer")):
        groups = [list(_odd_ones(part)) for part in _heaviest_kinds(rows).partition_by("group")]
        odd = [row for group in groups for row in group] if rows is products else max(groups, key=_excess, default=[])
        if facts.share(_excess(odd)) >= least("layer-precision") and sum(row["launches"] for row in odd) >= FEW_RECORDS:
            return sorted(odd, key=lambda row: (-row["excess"], row["layer"]))
    return []


def _products(facts: Facts) -> pl.DataFrame:
    """layer, name, kind (precision), took, launches of the matrix products of layers that have sisters."""
    analysis = facts.analysis
    sites = analysis.scoped_sites.with_row_index("site").select(pl.col("site").cast(pl.Int64), "name", "family", "launches")
    rows = analysis.scoped_shared.select("site", "layer", "took").join(sites, on="site")
    rows = rows.filter(pl.col("family").is_in(_MULTIPLIES), collapsed(pl.col("layer")) != pl.col("layer"))
    names = {name: precision(name) for name in rows["name"].unique()}
    return rows.with_columns(kind=pl.col("name").replace_strict(names, default="", return_dtype=pl.String)).filter(pl.col("kind") != "")


def _numbered(path: str) -> list[str]:
    """`layers.3.experts.1.up` → `layers.3`, `layers.3.experts.1`."""
    return [layer for layer in around(path) if layer.rpartition(".")[2].isdecimal()]


def _heaviest_kinds(products: pl.DataFrame) -> pl.DataFrame:
    """group (of layers alike), layer, and the kind of most of its time, with the took, launches and heaviest kernel of that kind."""
    by_kind = products.group_by("layer", "kind").agg(pl.col("took", "launches").sum(), pl.col("name").sort_by("took").last())
    heaviest = by_kind.sort("took", "kind", descending=True).unique("layer", keep="first", maintain_order=True)
    return heaviest.with_columns(group=collapsed(pl.col("layer")))


def _excess(odd: Sequence[dict[str, Any]]) -> int:
    return sum(row["excess"] for row in odd)


def _of_layers(facts: Facts, odd: Sequence[dict[str, Any]]) -> Finding:
    first = odd[0]
    share = facts.share(_excess(odd))
    paths = [row["layer"] for row in odd]
    common = _common(paths)
    where = common or f"{paths[0]} and {len(paths) - 1} more layers"
    sentence = (
        f"{where} multiplies matrices in {first['kind']}, its sisters in {first['usual']}: "
        f"it takes {first['took'] / max(first['of_sister'], 1):.1f} times as long, {facts.took(_excess(odd))}"
    )
    view = Evidence("flame", GPU_TIME.name, "layer", search(common or first["group"]), first["name"])
    return Finding(sentence, share, view, "layer-precision", share)


def _common(paths: Sequence[str]) -> str:
    """The layer with an index that contains all of these: `layers.3` for `layers.3.attn` and `layers.3.mlp`; otherwise ""."""
    shared = [path for path in around(paths[0]) if all(within(other, [path]) for other in paths)]
    return shared[-1] if shared and any(name.isdecimal() for name in shared[-1].split(".")) else ""


def _odd_ones(layers: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Among layers built alike, those with higher precision than most, and the time that this costs them."""
    usual = layers.group_by("kind").agg(many=pl.len()).sort("many", "kind", descending=[True, False]).row(0)
    if len(layers) < FEW_LAYERS or 2 * usual[1] <= len(layers):
        return
    of_sister = float(layers.filter(kind=usual[0]).select(pl.col("took").median()).item())
    for row in layers.iter_rows(named=True):
        if _SPEED[row["kind"]] < _SPEED[usual[0]]:
            yield row | {"usual": usual[0], "of_sister": of_sister, "excess": max(row["took"] - of_sister, 0)}
