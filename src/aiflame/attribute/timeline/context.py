"""Steps, phases, layers and ops for a timeline: paths of spans, and texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.meaning.context import Meaning
from aiflame.attribute.meaning.phases import NAMES, Phase
from aiflame.attribute.timeline.spans import Level, ancestors
from aiflame.attribute.timeline.tables import Making, SliceKind

DEEPEST_LAYER = 64
_Column = NDArray[np.integer]


class Contexts:
    def __init__(self, making: Making, meaning: Meaning) -> None:
        self.meaning = meaning
        self._making = making
        self._paths: dict[str, list[str]] = {}

    def levels(self, step: _Column, phase: _Column, layer: _Column, op: _Column) -> Iterator[Level]:
        """Paths for `path_spans` from columns as in `context.CONTEXT`. Work of phase `other` without step, layer and op has none."""
        meant = (phase > 0) & ((phase != Phase.OTHER) | (step >= 0) | (layer > 0) | (op > 0))
        yield Level(SliceKind.STEP, step)
        yield Level(SliceKind.PHASE, np.where(meant, phase, -1))
        if SliceKind.LAYER not in self._making.without:
            yield from self._layers(layer)
        if SliceKind.OP not in self._making.without:
            yield Level(SliceKind.OP, np.where(op > 0, op, -1))

    def _layers(self, layer: _Column) -> Iterator[Level]:
        for node in ancestors(self.meaning.forests["layer"].parent, layer.astype(np.int64), DEEPEST_LAYER):
            yield Level(SliceKind.LAYER, node)

    def cuts(self, track: _Column, step: _Column, phase: _Column) -> NDArray[np.bool_]:
        """True where no span continues: at the first item of a track, of a step, and outside of steps of a phase."""
        cuts = np.ones(len(track), dtype=np.bool_)
        cuts[1:] = (track[1:] != track[:-1]) | (step[1:] != step[:-1]) | ((step[1:] < 0) & (phase[1:] != phase[:-1]))
        return cuts

    def named(self, spans: pl.DataFrame) -> pl.DataFrame:
        """Spans of these levels, with the rows of their names instead of their values."""
        kind, value = spans["kind"].to_numpy(), spans["value"].to_numpy()
        name = np.zeros(len(spans), dtype=np.uint32)
        for of in (SliceKind.STEP, SliceKind.PHASE, SliceKind.LAYER, SliceKind.OP):
            here = kind == of
            distinct, which = np.unique(value[here], return_inverse=True)
            name[here] = self._making.names(self._name(of, one) for one in distinct.tolist())[which]
        return spans.with_columns(name=pl.Series(name)).drop("value")

    def texts(self, kind: str, values: Sequence[int]) -> list[str]:
        """Names of phases, layers (their paths with dots) and ops; empty for none."""
        text_of = {value: self._text(kind, value) for value in set(values)}
        return [text_of[value] for value in values]

    def _name(self, of: SliceKind, value: int) -> str:
        if of == SliceKind.STEP:
            return f"Step.{value}"
        if of == SliceKind.PHASE:
            return NAMES[Phase(value)]
        forest = self.meaning.forests["layer" if of == SliceKind.LAYER else "op"]
        return str(forest.frames["name"][int(forest.frame[value])])

    def _text(self, kind: str, value: int) -> str:
        if kind == "phase":
            return NAMES[Phase(value)] if value else ""
        if kind not in self._paths:
            self._paths[kind] = self.meaning.forests[kind].paths()
        return self._paths[kind][max(value, 0)]
