"""Names that frameworks give to ops, as layers and an op.

`jit(step)/jvp(Encoder)/layers_3/dot_general` → `Encoder`, `Encoder.layers_3`, then `jax::dot_general`; in the backward pass with
`transpose(jvp)` before the op
`model/dense/MatMul:MatMul` → `model`, `model.dense`, then `tf::MatMul`
"""

from __future__ import annotations

import re

import polars as pl

from aiflame.exchange.readers.frames import Frames, LayerFrame, NamedFrame
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.profile.schema.kinds import OP_MODULE, Kind

_WRAPPERS = re.compile(r"^(?:transpose|jvp|vmap|remat|checkpoint|custom_jvp|custom_vjp|rematted_computation)\((.*)\)$", re.DOTALL)
_STRUCTURE = frozenset(
    ("while", "body", "cond", "closed_call", "core_call", "checkpoint", "rematted_computation", "remat", "scan", "gradient_tape")
)
_JIT = re.compile(r"p?jit\(")
_NO_WORD = re.compile(r"[^\w.]+")
_BACKWARD = (("transpose(jvp", "transpose(jvp)"), ("gradient_tape", "gradient_tape"))
"""How a part of a name begins in the backward pass, and the frame that stands for it."""
_ANNOTATIONS = frozenset(("XlaModule:", "Thunk:", "XlaModule", "Thunk"))
"""Names that XLA gives to its own annotations."""
_LONGEST, _DEEPEST = 4000, 64


class Scopes:
    """The frames of ops, and the layers among them."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._layers: dict[tuple[str, ...], int] = {}

    def frames(self, name: str) -> list[int]:
        """Outermost first; empty where the name is none of an op."""
        layers, op = _parts(name)
        if not op:
            return []
        rows = [self._layers.setdefault(layers[:end], len(self._layers) + 1) for end in range(1, len(layers) + 1)]
        parts = _split(name)
        backward = [NamedFrame(frame, Kind.CPP) for begin, frame in _BACKWARD if any(part.startswith(begin) for part in parts)]
        return [
            *(self._frames.number(LayerFrame(row)) for row in rows),
            *(self._frames.number(frame) for frame in backward),
            self._frames.number(NamedFrame(op, Kind.CPP, module=OP_MODULE)),
        ]

    def add_layers(self, making: Making) -> None:
        """Writes the layers of process 0."""
        if not self._layers:
            return
        ids = list(self._layers.values())
        kinds = [path[-1] for path in self._layers]
        making.add(
            "layers",
            pl.DataFrame({"id": ids, "address": ids, "type": kinds}).with_columns(process=pl.lit(0), seen_ns=pl.lit(FIRST_NS)),
        )
        roots = [self._layers[path[:1]] for path in self._layers]
        paths = [".".join(path[1:]) for path in self._layers]
        rows = pl.DataFrame({"layer": ids, "root": roots, "path": paths, "type": kinds})
        making.add("layer_names", rows.with_columns(process=pl.lit(0)))


def _parts(name: str) -> tuple[tuple[str, ...], str]:
    if name in _ANNOTATIONS or len(name) > _LONGEST:
        return (), ""
    first = name.split(";")[0]
    parts = _split(first)
    path, colon, kind = parts[-1].rpartition(":")
    of_jax = first.startswith(("jit(", "pjit(", "pmap(", "xla_computation("))
    op = kind if colon and kind else path if colon else parts[-1]
    names = [bare for part in parts[:-1] if (bare := _bare(part)) and bare not in _STRUCTURE and "->" not in bare]
    if not of_jax and not names and not colon:
        return (), ""  # a name of an argument, or none
    op = _NO_WORD.sub("_", _bare(op).partition("[")[0]).strip("_") or "jit"
    return tuple(names[:_DEEPEST]), f"{'tf' if colon and kind and not of_jax else 'jax'}::{op}"


def _bare(part: str) -> str:
    while match := _WRAPPERS.match(part):
        part = match[1]
    return "" if _JIT.match(part) else part


def _split(path: str) -> list[str]:
    """At slashes outside of brackets."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(path):
        depth += (letter in "([") - (letter in ")]")
        if letter == "/" and depth == 0:
            parts.append(path[begin:at])
            begin = at + 1
    return [*parts, path[begin:]]
