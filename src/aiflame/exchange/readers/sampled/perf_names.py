"""Names of the functions in a recording of perf, from files of this machine that have the build ids in the recording."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np

from aiflame.exchange.readers.frames import AnyFrame, NamedFrame
from aiflame.exchange.readers.sampled.perf_records import Mapping, PerfFile, Sample
from aiflame.exchange.readers.sampled.perf_script import python_frame
from aiflame.exchange.readers.sampled.samples import native_kind
from aiflame.resolve.files.by_build_id import code_of, kernel_symbols, map_of
from aiflame.resolve.files.elf_file import LOAD
from aiflame.resolve.jit.dumps import JitNames, perf_map
from aiflame.resolve.native.elf_symbols import ElfSymbols

_KERNEL = re.compile(r"\[kernel\.kallsyms\](?P<reference>\w*)")
_FUNCTIONS = b"tTwW"
"""Types of the kernel's symbols that are code."""
_JIT = "[JIT]"
_ADDRESSES = 1 << 64


class PerfNames:
    def __init__(self, file: PerfFile, path: Path) -> None:
        self._file, self._path = file, path
        self.found = 0
        """libraries with names"""
        self._missing: set[str] = set()
        self._libraries: dict[tuple[str, bytes], _Library] = {}
        self._kernels: dict[bytes, _Kernel] = {}
        self._maps: dict[int, JitNames] = {}

    def missing(self) -> str:
        """About libraries whose functions have no names; empty: all have."""
        if not self._missing:
            return ""
        several = len(self._missing) > 1
        return f"{len(self._missing):,} of its files are not on this machine" if several else f"{min(self._missing)} is not on this machine"

    def of_file(self, mapping: Mapping, offset: int) -> str:
        """The function at an offset in a mapped file; empty: not known."""
        key = mapping.file, mapping.build_id or self._file.build_ids.get(mapping.file, b"")
        library = self._libraries.get(key)
        if library is None:
            library = self._libraries[key] = _Library(*key)
            self._count(mapping.file, library.is_there)
        return library.at(offset)

    def of_kernel(self, mapping: Mapping, address: int) -> str:
        """The kernel's function at an address; empty: not known."""
        kind = _KERNEL.fullmatch(mapping.file)
        if kind is None:
            return ""
        build_id = mapping.build_id or next((own for name, own in self._file.build_ids.items() if _KERNEL.match(name)), b"")
        kernel = self._kernels.get(build_id)
        if kernel is None:
            kernel = self._kernels[build_id] = _Kernel(kernel_symbols(build_id, self._path))
            self._count("the kernel", kernel.is_there)
        return kernel.at(address, kind["reference"].encode(), mapping.offset)

    def of_map(self, pid: int, address: int) -> AnyFrame | None:
        """The function that a compiler made at run time, as its map of the process names it."""
        names = self._maps.get(pid)
        if names is None:
            names = self._maps[pid] = JitNames(perf_map(map_of(pid, self._file.facts.get("host", ""), *self._stretch)))
            self.found += bool(len(names))
        answer = names.lookup(address)
        if answer is None:
            return None
        name = answer.method.name
        return python_frame(name) or NamedFrame(name, native_kind(name), _JIT)

    def _count(self, name: str, is_there: bool) -> None:
        self.found += is_there
        if not is_there:
            self._missing.add(name)

    @functools.cached_property
    def _stretch(self) -> tuple[float, float]:
        """When the recording began and ended, by the time at which its file was last written."""
        times = [record.time for record in self._file.records if isinstance(record, Sample) and record.time]
        ended = self._path.stat().st_mtime
        return (ended - (max(times) - min(times)) / 1e9, ended) if times else (0.0, 0.0)


class _Library:
    def __init__(self, path: str, build_id: bytes) -> None:
        self._code = code_of(path, build_id)
        elf = self._code.binary or self._code.debug
        self.is_there = elf is not None
        self._segments = [one for one in elf.segments if one.type == LOAD] if elf is not None else []
        self._symbols = ElfSymbols(self._code.binary, self._code.debug)
        self._names: dict[int, str] = {}

    def at(self, offset: int) -> str:
        name = self._names.get(offset)
        if name is None:
            name = self._names[offset] = self._find(offset)
        return name

    def _find(self, offset: int) -> str:
        place = next((one for one in self._segments if one.offset <= offset < one.offset + one.file_bytes), None)
        if place is None:
            return ""
        (function,) = self._symbols.lookup(np.array([offset - place.offset + place.address], dtype=np.uint64))
        return function.name if function is not None else ""


class _Kernel:
    def __init__(self, symbols: bytes) -> None:
        rows = [line.split(None, 3) for line in symbols.splitlines()]
        code = [(int(row[0], 16), row[2]) for row in rows if len(row) >= 3 and row[1] in _FUNCTIONS and _is_address(row[0])]
        self._address = {name: address for address, name in reversed(code)}
        placed = sorted(code)
        self.is_there = bool(placed and placed[-1][0])
        """Where addresses are hidden, all are 0."""
        self._starts = np.array([address for address, _ in placed], dtype=np.uint64)
        self._named = [name for _, name in placed]

    def at(self, address: int, reference: bytes, placed: int) -> str:
        """`reference`: the symbol whose address in the recording is `placed`, since the kernel lies elsewhere after each start; empty:
        it lies where it lay."""
        here = self._address.get(reference) if reference else placed
        if not self.is_there or here is None:
            return ""
        place = int(np.searchsorted(self._starts, np.uint64((address + here - placed) % _ADDRESSES), side="right")) - 1
        return self._named[place].decode("utf-8", "replace") if place >= 0 else ""


def _is_address(text: bytes) -> bool:
    return len(text) <= 16 and not text.strip(b"0123456789abcdef")
