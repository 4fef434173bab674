"""Which framework op each event of a trace belongs to."""

from __future__ import annotations

import numpy as np

from aiflame.attribute.arrays.types import Mask, Whole
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.xla.hlo import names_of_ops
from aiflame.exchange.readers.xla.scopes import Scopes
from aiflame.exchange.readers.xla.space import Plane

_NAMES = ("name", "tf_op")
_MODULE, _INSTRUCTION = "hlo_module", "hlo_op"


class OpNames:
    """`paths`: frames of ops, outermost first; 0 is that of no op."""

    def __init__(self, scopes: Scopes) -> None:
        self.paths: list[list[int]] = [[]]
        self._scopes = scopes
        self._numbers: dict[str, int] = {}
        self._path_of: dict[str, int] = {}

    def read(self, planes: list[Plane], making: Making) -> list[Whole]:
        """For each plane the path of each event: by the name that the event has, else by its instruction in the HLO module."""
        by_plane, lacking, wanted = [], [], set()
        for plane in planes:
            paths = self._by_stats(plane)
            module, instruction = (plane.texts(name, self._numbers) for name in (_MODULE, _INSTRUCTION))
            left = np.flatnonzero((paths == 0) & (module >= 0) & (instruction >= 0))
            pairs, inverse = np.unique(module[left] << 32 | instruction[left], return_inverse=True)
            texts = list(self._numbers)
            named = [(texts[pair >> 32], texts[pair & 0xFFFFFFFF]) for pair in pairs.tolist()]
            wanted.update(named)
            by_plane.append(paths)
            lacking.append((left, named, inverse))
        names = names_of_ops(planes, wanted, making) if wanted else {}
        for paths, (left, named, inverse) in zip(by_plane, lacking, strict=True):
            own = np.array([self._path(names.get(pair, "")) for pair in named], dtype=np.int64)
            paths[left] = own[inverse] if len(own) else 0
        return by_plane

    def depth(self) -> Whole:
        return np.array([len(path) for path in self.paths], dtype=np.int64)

    def _by_stats(self, plane: Plane) -> Whole:
        paths = np.array([self._of_tensorflow(named.name, named.display_name) for named in plane.named], dtype=np.int64)[plane.name_of]
        for_op: Mask = plane.has(_INSTRUCTION) | plane.has(_MODULE) | plane.has("tf_op")
        for stat in _NAMES:
            number = plane.texts(stat, self._numbers)
            rows = np.flatnonzero(for_op & (paths == 0) & (number >= 0))
            distinct, inverse = np.unique(number[rows], return_inverse=True)
            texts = list(self._numbers)
            own = np.array([self._path(texts[number]) for number in distinct.tolist()], dtype=np.int64)
            paths[rows] = own[inverse] if len(own) else 0
        return paths

    def _of_tensorflow(self, name: str, shown: str) -> int:
        return self._path(name) if shown and name.endswith(f":{shown}") else 0

    def _path(self, name: str) -> int:
        if name not in self._path_of:
            frames = self._scopes.frames(name) if name else []
            self._path_of[name] = len(self.paths) if frames else 0
            if frames:
                self.paths.append(frames)
        return self._path_of[name]
