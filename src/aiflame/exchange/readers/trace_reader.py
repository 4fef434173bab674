"""The functions of `libaiflame_trace_reader.so` (native/trace_reader), with their types."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiflame.errors import AiflameError

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIBRARY = Path(__file__).parents[2] / "lib" / "libaiflame_trace_reader.so"


class Span(ctypes.Structure):
    """Bytes that lie elsewhere."""

    _fields_ = (("data", c_void_p), ("size", c_size_t))

    def bytes(self) -> bytes:
        return ctypes.string_at(self.data, self.size) if self.size else b""


class Wanted(ctypes.Structure):
    _fields_ = (
        ("first", c_char_p),
        ("first_size", c_size_t),
        ("second", c_char_p),
        ("second_size", c_size_t),
        ("kind", c_uint32),
        ("digits", c_int32),
    )


class Summary(ctypes.Structure):
    _fields_ = tuple(
        (name, c_uint64)
        for name in (
            *("rows", "place", "damaged_places", "damaged_bytes", "cut", "found_array"),
            *("refused_texts", "texts", "keys", "members"),
        )
    )


class Spans(ctypes.Structure):
    _fields_ = (("thread", c_void_p), ("begin", c_void_p), ("end", c_void_p), ("count", c_int64))


class WantedColumn(ctypes.Structure):
    _fields_ = (("place", c_int32), ("values", c_uint8), ("varies", c_uint8), ("first", c_int64), ("to", c_void_p))


class ArrowSchema(ctypes.Structure):
    """https://arrow.apache.org/docs/format/CDataInterface.html"""

    _fields_ = (
        *((name, c_char_p) for name in ("format", "name", "metadata")),
        *((name, c_int64) for name in ("flags", "n_children")),
        *((name, c_void_p) for name in ("children", "dictionary", "release", "private_data")),
    )


class ArrowArray(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
        *((name, c_void_p) for name in ("buffers", "children", "dictionary", "release", "private_data")),
    )


_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "aiflame_rows_open": (c_void_p, (Span, POINTER(Wanted), c_uint32, c_uint64, c_uint64)),
    "aiflame_rows_close": (None, (c_void_p,)),
    "aiflame_rows_feed": (c_int32, (c_void_p, Span)),
    "aiflame_rows_finish": (c_int32, (c_void_p,)),
    "aiflame_rows_summary": (None, (c_void_p, POINTER(Summary))),
    "aiflame_rows_column": (c_void_p, (c_void_p, c_uint32)),
    "aiflame_rows_unfit": (c_uint64, (c_void_p, c_uint32)),
    "aiflame_rows_key": (c_uint64, (c_void_p, c_uint32, POINTER(Span), POINTER(c_uint32))),
    "aiflame_rows_member": (c_bool, (c_void_p, c_uint64, POINTER(Span), POINTER(Span))),
    "aiflame_rows_text": (c_bool, (c_void_p, c_uint32, POINTER(Span))),
    "aiflame_rows_texts": (c_bool, (c_void_p, POINTER(ArrowSchema), POINTER(ArrowArray))),
    "aiflame_spans_in_order": (c_bool, (POINTER(Spans),)),
    "aiflame_spans_nest": (c_int64, (POINTER(Spans), c_void_p, c_void_p)),
    "aiflame_sqlite_columns": (
        c_bool,
        (c_int, c_uint32, POINTER(WantedColumn), c_uint32, c_int64, c_uint64, c_uint64, POINTER(ArrowSchema), POINTER(ArrowArray)),
    ),
}


@cache
def library() -> ctypes.CDLL:
    """Calls of it let other Python threads run."""
    if not LIBRARY.is_file():
        raise AiflameError(f"the reader of traces is missing at {LIBRARY}: reinstall aiflame (pip install --force-reinstall aiflame)")
    loaded = ctypes.CDLL(str(LIBRARY))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def span_of(array: NDArray[Any]) -> Span:
    return Span(array.ctypes.data, array.nbytes)


class ArrowCapsules:
    """An array of Arrow's C data interface, for whom takes objects with `__arrow_c_array__`.

    Who takes the array over marks the structures as released; they themselves are memory of this object.
    """

    def __init__(self, schema: ArrowSchema, array: ArrowArray) -> None:
        self._schema, self._array = schema, array

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return _capsule(self._schema, b"arrow_schema"), _capsule(self._array, b"arrow_array")


_NEW_CAPSULE = ctypes.pythonapi.PyCapsule_New
_NEW_CAPSULE.restype, _NEW_CAPSULE.argtypes = ctypes.py_object, (c_void_p, c_char_p, c_void_p)
_NAMES: dict[bytes, Any] = {name: ctypes.create_string_buffer(name) for name in (b"arrow_schema", b"arrow_array")}


def _capsule(structure: ctypes.Structure, name: bytes) -> object:
    """A capsule keeps the address of its name."""
    capsule: object = _NEW_CAPSULE(ctypes.addressof(structure), ctypes.cast(_NAMES[name], c_char_p), None)
    return capsule
