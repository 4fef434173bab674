"""The memory of a value that a container holds: the types that have memory of their own, and where it is. The value's own code is not run:
of subclasses of these types only the name is read.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Parts = Iterator[tuple[str, int, bool]]

LEAST_BYTES = 4096
"""Of `bytes` and `str`."""
NEWEST, FEW_FIELDS = 4, 64
"""Entries that are looked into, of containers within containers, and attributes of an object."""
MOST_FIELDS = 4096
"""An object that has more has others' data for attributes."""


class Contents:
    def __init__(self) -> None:
        self._torch = sys.modules.get("torch")
        self._tensor = getattr(self._torch, "Tensor", None)
        self._tensors = {self._tensor, getattr(getattr(self._torch, "nn", None), "Parameter", None)} - {None}
        self._jax = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
        self._array = getattr(sys.modules.get("numpy"), "ndarray", None)

    def is_memory(self, kind: type) -> bool:
        return kind in self._tensors or kind is self._array or kind is self._jax

    def of(self, value: "Any", depth: int = 2) -> "Parts":
        """The type's name, the address of the memory (0: not known), and whether it is a tensor with an autograd graph."""
        kind = type(value)
        if kind in self._tensors:
            yield kind.__name__, *self._of_tensor(value)
        elif self._tensor is not None and issubclass_of(kind, self._tensor):
            yield name_of(kind), 0, False
        elif kind is self._array:
            yield kind.__name__, value.__array_interface__["data"][0], False
        elif kind is self._jax:
            yield "Array", 0, False  # its address waits until it is computed
        elif kind is bytes or kind is str:
            if len(value) >= LEAST_BYTES:
                yield kind.__name__, id(value), False
        elif kind is bytearray:
            if len(value) >= LEAST_BYTES:
                yield kind.__name__, 0, False
        elif depth:
            for inner in _inner(value, kind):
                yield from self.of(inner, depth - 1)

    def _of_tensor(self, value: "Any") -> tuple[int, bool]:
        """Reading the address of a copy-on-write tensor would copy it; other devices than these may have none, or have to wait for it."""
        core: Any = self._torch._C  # type: ignore[union-attr]
        with core.DisableTorchFunction():
            graph = value.requires_grad and not value.is_leaf
            is_shared = getattr(core, "_is_cow_tensor", None)
            if value.device.type not in ("cpu", "cuda") or value.layout is not self._torch.strided or (is_shared and is_shared(value)):  # type: ignore[union-attr]
                return 0, graph
            try:
                return value.data_ptr(), graph
            except RuntimeError:  # it has no storage: within vmap() and the like
                return 0, graph


def issubclass_of(kind: type, other: type) -> bool:
    """Without asking a metaclass."""
    return any(base is other for base in mro_of(kind))


def mro_of(kind: type) -> tuple[type, ...]:
    return _MRO(kind)  # type: ignore[no-any-return]


def class_dict(kind: type) -> "Any":
    return _CLASS_DICT(kind)


def name_of(kind: type) -> str:
    return _NAME(kind)  # type: ignore[no-any-return]


_MRO, _CLASS_DICT, _NAME = (type.__dict__[name].__get__ for name in ("__mro__", "__dict__", "__name__"))


def _inner(value: "Any", kind: type) -> list["Any"]:
    if kind is list or kind is tuple:
        return list(value[-NEWEST:])
    if kind is dict:
        return newest_values(value, NEWEST)
    return list(attributes(value, dict_getter(kind)).values())[:FEW_FIELDS]


def newest_values(value: dict["Any", "Any"], most: int) -> list["Any"]:
    """The newest first. dict's own methods, also for subclasses."""
    return [one for one, _ in zip(reversed(dict.values(value)), range(most), strict=False)]


def dict_getter(kind: type) -> "Any":
    """Reads the attributes of objects of a class; None: it has none, or makes them up."""
    for base in mro_of(kind):
        if "__dict__" in class_dict(base):
            getter = class_dict(base)["__dict__"]
            return getter.__get__ if type(getter) is _GETTER else None
    return None


def attributes(value: "Any", getter: "Any") -> dict[str, "Any"]:
    own = getter(value) if getter else None
    return own if type(own) is dict and len(own) <= MOST_FIELDS else {}


class _Plain:
    pass


_GETTER = type(_Plain.__dict__["__dict__"])
