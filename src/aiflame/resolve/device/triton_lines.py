"""Inlined calls of a Triton kernel. Its cubin has only the innermost line (Triton 3.6's LLVM writes no calls into the PTX), but
Triton's cache has the PTX from which the cubin was made, with the calls in comments:

    .loc 2 170 27   // standard.py:170:27 @[ standard.py:191:40 @[ softmax.py:7:29 @[ softmax.py:15:40 ] ] ]

`.nv_debug_line_sass` of the cubin leads from an instruction to the line of the PTX. A chain that does not agree with the cubin's own
line is not used.
"""

from __future__ import annotations

import ast
import getpass
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

from aiflame.resolve.device.cubin import Cubin
from aiflame.resolve.device.cubin_lines import DEEPEST, Chain, CubinLines, DeviceLine, File
from aiflame.resolve.files.outside import Outside
from aiflame.values import dataclass, field

PTX_LINES = ".nv_debug_line_sass"
LARGEST = 64 << 20
"""The largest file that is read."""

FunctionAt = Callable[[File, int], str]

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:\s*//(.*))?")
_PLACE = re.compile(r"([^\s@\[\]][^@\[\]]*?):(\d+):\d+(?=\s|$)")


def caches() -> list[Path]:
    """The folders where Triton and torch.compile keep compiled kernels."""
    home, inductor = os.environ.get("TRITON_HOME"), os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    try:
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
        roots = [Path(home or Path.home()) / ".triton/cache"]
    except (KeyError, OSError, RuntimeError):
        user, roots = "", []
    roots += [Path(folder) for folder in (os.environ.get("TRITON_CACHE_DIR"),) if folder]
    for folder in (inductor, f"{tempfile.gettempdir()}/torchinductor_{user}"):
        roots += sorted(Path(folder).glob("triton/*")) if folder else []
    return [root for root in dict.fromkeys(roots) if root.is_dir()]


@dataclass(slots=True)
class TritonLines:
    """The lines of a cubin: its own, and around them the calls in its PTX."""

    own: CubinLines
    ptx: list[Chain] = field(default_factory=list)
    """By line of the PTX, from 0."""
    to_ptx: CubinLines | None = None

    def chain(self, section: int, address: int) -> Chain:
        chain = self.own.chain(section, address)
        if len(chain) != 1 or self.to_ptx is None:
            return chain
        line = next((place.line for place in self.to_ptx.chain(section, address)), 0)
        from_ptx = self.ptx[line - 1] if 0 < line <= len(self.ptx) else ()
        return from_ptx if from_ptx and (from_ptx[-1].file.path, from_ptx[-1].line) == (chain[0].file.path, chain[0].line) else chain


class TritonCache:
    """The files in Triton's caches, by the kernel's name."""

    def __init__(self, roots: Iterable[Path], outside: Outside) -> None:
        self._roots = list(roots) if outside.allowed else []
        self._outside = outside
        self._functions: dict[File, list[tuple[int, int, str]]] = {}

    def lines(self, cubin: Cubin, name: str) -> TritonLines:
        """The lines of a cubin whose kernel has this name; without its PTX, only the cubin's own."""
        own = CubinLines(cubin)
        if not cubin.data(PTX_LINES):
            return TritonLines(own)
        for path in self.compiled(name, ".cubin"):
            other = Cubin.of_bytes(self.read(path))
            if _is_same(cubin, other) and (text := self.read(path.with_suffix(".ptx"))):
                chains = _chains(text.decode(errors="replace"), own.files(), self.function_at)
                return TritonLines(own, list(chains), CubinLines(cubin, PTX_LINES))
        return TritonLines(own)

    def compiled(self, name: str, ending: str) -> Iterator[Path]:
        """The files `NAME.cubin` or `NAME.hsaco` of all compilations of a kernel."""
        for folder in self._folders if re.fullmatch(r"\w{1,200}", name) else ():
            path = folder / f"{name}{ending}"
            if path.is_file():
                yield path

    def read(self, path: Path) -> bytes | None:
        return self._outside.compiled(path, LARGEST)

    def function_at(self, file: File, line: int) -> str:
        """The Python function that contains a line; "" if unknown."""
        if file not in self._functions:
            self._functions[file] = _functions(file, self._outside)
        return next((name for first, last, name in self._functions[file] if first <= line <= last), "")

    @cached_property
    def _folders(self) -> list[Path]:
        folders: list[Path] = []
        for root in self._roots:
            try:
                folders += [Path(entry.path) for entry in os.scandir(root) if entry.is_dir()]
            except OSError:  # noqa: PERF203
                continue
        return folders


def _is_same(cubin: Cubin, other: Cubin | None) -> bool:
    if other is None or cubin.data(PTX_LINES) != other.data(PTX_LINES):
        return False
    sections = [section.name for section in cubin.elf.sections if section.name.startswith(".text.")]
    return all(cubin.data(name) == other.data(name) for name in sections)


def _chains(text: str, files: dict[str, File], function_at: FunctionAt) -> Iterator[Chain]:
    """The chain of calls for each line of a PTX; `files`: the files in the cubin's own table, with their sizes."""
    lines = text.split("\n")
    paths = {int(match[1]): match[2] for line in lines if (match := _FILE.match(line))}
    by_name: dict[str, set[str]] = {}
    for path in paths.values():
        by_name.setdefault(path.rpartition("/")[2], set()).add(path)
    chains: dict[str, Chain] = {}
    chain: Chain = ()
    for line in lines:
        if match := _LOCATION.match(line):
            if line not in chains:
                chains[line] = _chain(match, paths, by_name, files, function_at)
            chain = chains[line]
        yield chain


def _chain(
    match: re.Match[str], paths: dict[int, str], by_name: dict[str, set[str]], known_files: dict[str, File], function_at: FunctionAt
) -> Chain:
    """Comments name files without folders: if two files have the same name, no chain is returned."""
    innermost = paths.get(int(match[1]), "")
    places = [(innermost, int(match[2]))]
    for name, number in _PLACE.findall(match[3] or "")[1 : DEEPEST + 1]:
        candidates = by_name.get(name, set())
        if len(candidates) != 1:
            return ()
        places.append((next(iter(candidates)), int(number)))
    files = [(known_files.get(path) or File(path, 0), line) for path, line in reversed(places)]
    return tuple(DeviceLine(function_at(file, line) if depth else "", file, line) for depth, (file, line) in enumerate(files))


def _functions(file: File, outside: Outside) -> list[tuple[int, int, str]]:
    """First line, last line, name: inner functions first. Empty if the file has changed since it was compiled."""
    path = Path(file.path)
    text = outside.source(path, file.bytes).content if path.suffix == ".py" else None
    if not text:
        return []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [(node.lineno, node.end_lineno or node.lineno, node.name) for node in sorted(functions, key=lambda node: -node.lineno)]
