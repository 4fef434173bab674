"""Readable names of native functions: demangled, without parts that only a linker needs. The full name is kept beside it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache

from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.names.cpp_names import shorten
from aiflame.resolve.names.long_names import outline
from aiflame.resolve.names.rust_names import demangle_rust
from aiflame.values import dataclass

_MANGLED = ("_Z", "__Z")
LONGEST_MANGLED = 1 << 15
"""Longer names are not demangled: time and memory may explode on a text that no compiler made."""
LONGEST_FULL = 4096
LONGEST_SHORT = 300

_CLONE = re.compile(r"\.(?:constprop|isra|part|cold|lto_priv|llvm|localalias|unlikely|hot|\d)[.\w]*$")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_POCL_KERNEL = re.compile(r"_pocl_kernel_(?P<kernel>.+?)(?:_workgroup(?:_fast)?)?$")
"""Names of the functions that PoCL compiles from OpenCL kernels for the CPU."""
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
_RUST_ESCAPE = re.compile(r"\$(SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$")
_RUST_ESCAPES = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}


@dataclass(frozen=True, slots=True)
class Name:
    short: str
    full: str
    kind: Kind
    """C, CPP for a mangled name, GPU_KERNEL for a kernel that a CPU runs."""


def readable(raw: str) -> Name:
    """The readable name of a symbol."""
    stub = "@plt" if raw.endswith("@plt") else ""
    symbol = raw.removesuffix("@plt")
    if symbol.startswith((*_MANGLED, "_R")) and (full := demangle(symbol)) != symbol:
        name = readable_cpp(full)
        return Name(name.short + stub, name.full + stub, Kind.CPP)
    full = clean(symbol)
    if kernel := _POCL_KERNEL.match(full):
        return Name(cut(kernel["kernel"], LONGEST_SHORT), cut(full, LONGEST_FULL), Kind.GPU_KERNEL)
    if short := outline(full):
        return Name(cut(short, LONGEST_SHORT) + stub, cut(full, LONGEST_FULL) + stub, Kind.CPP)
    return Name(cut(_CLONE.sub("", full) or full, LONGEST_SHORT) + stub, cut(full, LONGEST_FULL) + stub, Kind.C)


def readable_cpp(name: str) -> Name:
    """The readable name of C++ code that is not mangled, as DWARF gives it for functions without a symbol."""
    full = clean(name)
    return Name(cut(shorten(full), LONGEST_SHORT), cut(full, LONGEST_FULL), Kind.CPP)


def demangle(symbol: str) -> str:
    """The C++ or Rust name, or `symbol` itself if it is neither (or there is no demangler)."""
    if (rust := demangle_rust(symbol)) is not None:
        return rust
    function = _demangler()
    # The runtime takes texts without the mark for types: `a` is `signed char`.
    if function is None or len(symbol) > LONGEST_MANGLED or not symbol.startswith(_MANGLED):
        return symbol
    text = function(symbol)
    if text is None and (base := _CLONE.sub("", symbol)) != symbol:
        text = function(base)
    if text is None:
        return symbol
    return _rust(text) if _RUST_HASH.search(text) else text


def clean(text: str) -> str:
    """The text without characters that would move the cursor of a terminal or break a line of a table."""
    return _UNPRINTABLE.sub("?", text)


def cut(text: str, most: int) -> str:
    """The beginning and the end of a text that is too long."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[len(text) - (most - most * 2 // 3 - 1) :]}"


def _rust(text: str) -> str:
    """Rust's older mangling is C++'s, with a hash as the last part and escapes for signs that C++ names cannot have."""
    text = _RUST_HASH.sub("", text)

    def unescape(match: re.Match[str]) -> str:
        code = match[1]
        return _RUST_ESCAPES[code] if code in _RUST_ESCAPES else chr(min(int(code[1:], 16), 0xFFFD))

    return re.sub(r"(?<![\w>])_(?=<)", "", _RUST_ESCAPE.sub(unescape, text).replace("..", "::"))


@cache
def _demangler() -> Callable[[str], str | None] | None:
    """The C++ runtime's demangler; NumPy needs libstdc++, so it is loaded."""
    for library in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            return _demangler_of(ctypes.CDLL(library))
        except (OSError, AttributeError):  # noqa: PERF203
            continue
    return None


def _demangler_of(library: ctypes.CDLL) -> Callable[[str], str | None]:
    function, free = library.__cxa_demangle, ctypes.CDLL(None).free
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    free.argtypes = [ctypes.c_void_p]

    def call(symbol: str) -> str | None:
        address = function(symbol.encode("utf-8", "replace"), None, None, None)
        if not address:
            return None
        try:
            return ctypes.string_at(address).decode("utf-8", "replace")
        finally:
            free(address)

    return call
