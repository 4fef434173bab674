"""Labels of pprof that say for which layer and op of a model a value was spent, as aiflame writes them."""

from __future__ import annotations

import polars as pl

from aiflame.exchange.readers.frames import AnyFrame, LayerFrame, NamedFrame
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.profile.schema.kinds import OP_MODULE, Kind

_MOST = 1 << 16
"""Different layers."""
_DEEPEST = 32
"""Names of a path that become frames of their own."""
_ROOT = 1
_BACKWARD = " (backward)"


class LayerLabels:
    """Layers by their paths, below one model without a name."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}

    def placed(self, frames: list[AnyFrame], layer: str, op: str) -> list[AnyFrame]:
        """A stack, outermost frame first, with frames for its layer and op: the op stands around all unless the stack has it, and the layer
        around the op, since a layer calls its ops. The backward pass of an op has a name that no function has."""
        own = NamedFrame(op, Kind.CPP, module=OP_MODULE)
        here = [at for at, frame in enumerate(frames) if isinstance(frame, NamedFrame) and (frame.name, frame.module) == (op, OP_MODULE)]
        backward = op.endswith(_BACKWARD)
        lacks_op = bool(op) and not here and not backward
        at = here[-1] if here else 0 if lacks_op or backward else len(frames)
        return [*frames[:at], *self._layer(layer), *([own] if lacks_op else []), *frames[at:]]

    def _layer(self, path: str) -> list[AnyFrame]:
        if not path or (path not in self._rows and len(self._rows) >= _MOST):
            return []
        names = path.split(".")
        for end in range(1, min(len(names), _DEEPEST) + 1):  # the layers around it have rows, too: they are frames of its path
            self._rows.setdefault(".".join(names[:end]) if end < _DEEPEST else path, len(self._rows) + 1 + _ROOT)
        return [LayerFrame(self._rows[path])]

    def add(self, making: Making, processes: int) -> None:
        """Writes the layers of each process."""
        if not self._rows:
            return
        ids = [_ROOT, *self._rows.values()]
        types = ["", *(path.rpartition(".")[2] for path in self._rows)]
        named = pl.DataFrame({"layer": ids, "root": _ROOT, "path": ["", *self._rows], "type": types})
        own = pl.DataFrame({"id": ids, "address": ids, "type": types, "seen_ns": FIRST_NS})
        for process in range(processes):
            making.add("layers", own.with_columns(process=pl.lit(process)))
            making.add("layer_names", named.with_columns(process=pl.lit(process)))
