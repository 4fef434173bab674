"""Names of a model's modules, and the frames of a chain of module calls: `layers.3`, then `attn`."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from aiflame.attribute.tree import Frame
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

Module = tuple[int, int]
"""process, row of `layers`"""

_WRAPPERS = frozenset(["_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module", "_forward_module", "_original_module"])
"""Names of children that people do not distinguish from the module itself."""
_WRAPPED = "module"
"""The same for DistributedDataParallel and others; as a module's own name it may occur anywhere else."""
_WRAPPER_CLASSES = ("DataParallel", "DistributedDataParallel", "AveragedModel", "DeepSpeedEngine", "Float16Module", "Wrapper")
_CONTAINERS = ("ModuleList", "ModuleDict")
"""These modules are never called, but their names are part of their children's names."""


@dataclass(frozen=True, slots=True)
class ModulePath:
    """The path of a module in a model."""

    root: Module
    path: tuple[str, ...]
    """From the root, without wrappers."""


class LayerNames:
    """The models of a profile. `called`: the modules whose calls the profile shows."""

    def __init__(self, profile: Tables, called: Iterable[Module]) -> None:
        self._called = set(called)
        self._classes = _classes(profile)
        self._places: dict[Module, list[ModulePath]] = {}
        self._at: dict[ModulePath, Module] = {}
        """The module at each path; if a wrapper and its wrapped module have the same path, the latter."""
        self._is_called: set[ModulePath] = set()
        self._read(profile)

    def class_of(self, module: Module) -> str:
        """Its class without the Python module."""
        return self._classes.get(module, "").rpartition(".")[2] or "[unknown layer]"

    def places(self, module: Module) -> list[ModulePath]:
        """The paths of a module, in the order of recording."""
        return self._places.get(module, [])

    def inside(self, module: Module, outer: ModulePath | None) -> ModulePath | None:
        """The path of a module that is called inside of another: a path below that one if it has one there, otherwise one in the same
        model, otherwise its first path, if possible in a model that is not part of another one."""
        places = self.places(module)
        if outer is not None:
            here = [place for place in places if place.root == outer.root]
            below = [place for place in here if place.path[: len(outer.path)] == outer.path]
            if below:
                return min(below, key=lambda place: len(place.path))
            if here:
                return here[0]
        whole = [place for place in places if all(other.root == place.root for other in self.places(place.root))]
        return next(iter(whole or places), None)

    def frames(self, place: ModulePath, begin: int = 0) -> list[Frame]:
        """The frames of a path, without its first `begin` components."""
        frames, name = [], ""
        for end in range(begin + 1, len(place.path) + 1):
            at = ModulePath(place.root, place.path[:end])
            name = f"{name}.{place.path[end - 1]}" if name else place.path[end - 1]
            if end == len(place.path) or not self._is_mere_name(at, place.path[end]):
                frames.append(self._frame(name, at))
                name = ""
        return frames

    def root_frame(self, place: ModulePath, number: int = 0) -> Frame:
        """The class of a path's model as a frame. `number` distinguishes models of one class."""
        root = self._at.get(ModulePath(place.root, ()), place.root)
        name = self.class_of(root)
        return Frame(f"{name} ({number})" if number > 1 else name, Kind.LAYER, full_name=self._full_class(root))

    def class_frame(self, module: Module) -> Frame:
        """The frame of a module that belongs to no model."""
        return Frame(self.class_of(module), Kind.LAYER, full_name=self._full_class(module))

    def _frame(self, name: str, at: ModulePath) -> Frame:
        module = self._at.get(at)
        path = ".".join(at.path)
        full = f"{path} ({self._classes.get(module, '')})" if module is not None and self._classes.get(module) else path
        return Frame(name, Kind.LAYER, full_name="" if full == name else full)

    def _full_class(self, module: Module) -> str:
        full = self._classes.get(module, "")
        return "" if full == self.class_of(module) else full

    def _is_mere_name(self, at: ModulePath, child: str) -> bool:
        """True for a container that is never called: its name becomes part of its children's names."""
        if at in self._is_called:
            return False
        module = self._at.get(at)
        return module is None or child.isdecimal() or self.class_of(module).endswith(_CONTAINERS)

    def _read(self, profile: Tables) -> None:
        names = profile.table("layer_names").sort("process", "id").select("process", "layer", "root", "path").rows()
        wrappers = {(process, root, path) for process, layer, root, path in names if self._is_wrapper((process, layer))}
        longest: dict[ModulePath, int] = {}
        for process, layer, root, path in names:
            module, place = (process, layer), ModulePath((process, root), _unwrapped(process, root, path, wrappers))
            places = self._places.setdefault(module, [])
            if place not in places:
                places.append(place)
            if len(path) >= longest.get(place, 0):
                longest[place] = len(path)
                self._at[place] = module
            if module in self._called:
                self._is_called.add(place)

    def _is_wrapper(self, module: Module) -> bool:
        return self.class_of(module).endswith(_WRAPPER_CLASSES)


def _unwrapped(process: int, root: int, path: str, wrappers: set[tuple[int, int, str]]) -> tuple[str, ...]:
    """The components of a path that are not wrappers. `wrappers`: process, root and path of each."""
    kept: list[str] = []
    above = ""
    for part in path.split(".") if path else []:
        wraps = part in _WRAPPERS or (part == _WRAPPED and (not kept or (process, root, above) in wrappers))
        if not wraps:
            kept.append(part)
        above = f"{above}.{part}" if above else part
    return tuple(kept)


def _classes(profile: Tables) -> dict[Module, str]:
    """The class of each module; with its Python module if `layer_names` has it."""
    classes: dict[Module, str] = {}
    for table, row in (("layers", "id"), ("layer_names", "layer")):
        rows = profile.table(table).filter(pl.col("type") != "").select("process", row, "type")
        classes.update({(process, layer): name for process, layer, name in rows.rows()})
    return classes
