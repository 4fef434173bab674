"""Derives the tables about device code: names, lines and instructions (`kernel_names`, `gpu_lines`, `gpu_instructions`, `sources`)."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import polars as pl

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.kinds import UNKNOWN_CODE
from aiflame.profile.tables.store import Profile
from aiflame.resolve.device import device_code, hsaco, hsaco_code, iga, llvm_objdump, no_tool, zebin, zebin_code
from aiflame.resolve.device.code_rows import CodeRows, parted
from aiflame.resolve.device.cubin import Cubin, Function
from aiflame.resolve.device.cubin_lines import Chain, DeviceLine, File
from aiflame.resolve.device.kernel_families import family
from aiflame.resolve.device.kernel_names import full_name, own_name, short_name
from aiflame.resolve.device.no_tool import NO_TOOLS
from aiflame.resolve.device.nvdisasm import NO_TOOL, Code, Listing, disassemble, tools
from aiflame.resolve.device.sources import sources
from aiflame.resolve.device.triton_lines import TritonCache, TritonLines, caches
from aiflame.resolve.files.outside import NOTHING, Outside
from aiflame.resolve.names.readable import clean, readable
from aiflame.values import dataclass, field

INSTRUCTION_BYTES = 16
"""The size of an instruction on every GPU of NVIDIA that can be sampled (Volta and later)."""

INSTRUCTIONS = {"cubin": pl.UInt64, "function": pl.String, "offset": pl.UInt32, "sass": pl.String}
LINES = {
    "cubin": pl.UInt64, "function": pl.String, "offset": pl.UInt32,
    "depth": pl.UInt16, "name": pl.String, "file": pl.String, "line": pl.UInt32,
}  # fmt: skip
SOURCES = {"path": pl.String, "text": pl.String}
BINARIES = {"cubin": pl.UInt64, "binary": pl.String}
NAMES = {"name": pl.String, "short": pl.String, "full": pl.String, "family": pl.String}


def write_gpu_tables(
    profile: Profile,
    progress: Callable[[float], None],
    nvdisasm: Sequence[Path] | None = None,
    made_from: Mapping[str, str] = MappingProxyType({}),
    outside: Outside = NOTHING,
) -> list[str]:
    """Writes the tables for which the profile has data; compresses cubins with samples, removes the others. Returns notes on missing parts.
    `made_from`: the source ops of compiled kernels by name, for the full name."""
    functions = profile.table("gpu_functions").filter(pl.col("name") != UNKNOWN_CODE)
    names = pl.concat([profile.table("kernel_shapes")["name"], functions["name"]]).unique().sort().to_list()
    if names:
        profile.write_table(
            "kernel_names", _frame(NAMES, [(name, short_name(name), _full(name, made_from), family(name)) for name in names])
        )
    sampled = _sampled(profile)
    notes: list[str] = []
    if sampled:
        notes = _write_code(profile, sampled, tools() if nvdisasm is None else nvdisasm, progress, outside)
        if profile.has("kernel_variants"):
            binaries = _binaries(profile.folder.folder(device_code.FOLDER), {crc for crc, _ in sampled})
            profile.write_table("kernel_binaries", _frame(BINARIES, binaries))
    if profile.is_ours:
        device_code.keep(profile.folder, {crc for crc, _ in sampled})
    return notes


def _full(name: str, made_from: Mapping[str, str]) -> str:
    return f"{full_name(name)}: {made_from[name]}" if name in made_from else full_name(name)


def add_instructions(profile: Profile) -> None:
    """Adds the instructions to a profile that was sealed without a disassembler (`NO_TOOLS`), if one is available now."""
    nvdisasm = tools()
    here = {NO_TOOL: nvdisasm, no_tool.AMD: llvm_objdump.tools(), no_tool.INTEL: iga.libraries()}
    if not any(here[note] for note in profile.meta.degraded if note in here):
        return
    folder = profile.folder.folder(device_code.FOLDER)
    triton = TritonCache((), NOTHING)
    code, cuda = _others(folder, _sampled(profile), triton, lines=False)
    functions, codes, _ = _find(folder, cuda, triton)
    listings = disassemble(codes, nvdisasm) if nvdisasm else {}
    if not listings and not code.instructions:
        return
    try:
        added = pl.concat([_instructions(functions, listings), _frame(INSTRUCTIONS, code.instructions)])
        before = profile.table("gpu_instructions").select(list(INSTRUCTIONS)).join(added, on=["cubin", "function"], how="anti")
        profile.write_table("gpu_instructions", pl.concat([added, before]))
        kept = tuple(note for note in profile.meta.degraded if note not in NO_TOOLS)
        profile.write_meta(dataclasses.replace(profile.meta, degraded=kept).with_notes(*_failures(codes, listings, nvdisasm), *code.notes))
    except (AiflameError, OSError):
        pass  # a profile that we cannot write to is read as it is


def _sampled(profile: Profile) -> list[tuple[int, str]]:
    """The functions that have samples: (crc of the cubin, name)."""
    functions = profile.scan("gpu_functions").select("process", pl.col("id").alias("function"), "cubin", "name")
    functions = functions.filter(pl.col("name") != UNKNOWN_CODE)
    samples = profile.scan("gpu_samples").select("process", "function").unique()
    rows = functions.join(samples, on=["process", "function"], how="semi").select("cubin", "name").unique().sort("cubin", "name")
    return [(crc, name) for crc, name in rows.collect().iter_rows()]


@dataclass(slots=True)
class _Sampled:
    """A sampled function whose code was found."""

    crc: int
    name: str
    cubin: Cubin
    function: Function
    lines: TritonLines
    code: int
    """The place of its section among those to disassemble."""


def _write_code(
    profile: Profile, sampled: list[tuple[int, str]], nvdisasm: Sequence[Path], progress: Callable[[float], None], outside: Outside
) -> list[str]:
    folder = profile.folder.folder(device_code.FOLDER)
    triton = TritonCache(caches() if outside.allowed else (), outside)
    code, cuda = _others(folder, sampled, triton, progress, apart=not outside.allowed)
    functions, codes, notes = _find(folder, cuda, triton)
    listings = disassemble(codes, nvdisasm, progress) if nvdisasm else {}
    notes += _failures(codes, listings, nvdisasm) + code.notes
    profile.write_table("gpu_instructions", pl.concat([_instructions(functions, listings), _frame(INSTRUCTIONS, code.instructions)]))
    table = _Lines()
    for one in functions:
        table.add(one, listings.get(one.code))
    profile.write_table("gpu_lines", pl.concat([table.frame(), _frame(LINES, code.lines)]))
    files = table.files | code.files if outside.keeps_sources else ()
    texts = sources(files, profile.table("processes")["cwd"].unique().to_list(), outside)
    profile.write_table("sources", _frame(SOURCES, list(texts.text.items())))
    return notes + texts.notes


def _others(
    folder: Folder,
    sampled: list[tuple[int, str]],
    triton: TritonCache,
    progress: Callable[[float], None] = lambda share: None,
    *,
    lines: bool = True,
    apart: bool = True,
) -> tuple[CodeRows, list[tuple[int, str]]]:
    """The code of AMD's and Intel's GPUs, and the sampled functions of other code."""
    amd, others = parted(folder, sampled, hsaco.MACHINE)
    intel, cuda = parted(folder, others, zebin.MACHINE)
    code = hsaco_code.read(folder, amd, triton, progress=progress, lines=lines, apart=apart)
    code.add(zebin_code.read(folder, intel, lines=lines, apart=apart))
    return code, cuda


def _binaries(folder: Folder, crcs: Iterable[int]) -> list[tuple[object, ...]]:
    """SHA-256 of the sampled cubins, which identifies specializations of one function."""
    binaries = ((crc, device_code.binary(folder, crc)) for crc in sorted(crcs))
    return [(crc, hashlib.sha256(binary).hexdigest()) for crc, binary in binaries if binary is not None]


def _find(folder: Folder, sampled: list[tuple[int, str]], triton: TritonCache) -> tuple[list[_Sampled], list[Code], list[str]]:
    functions: list[_Sampled] = []
    codes: list[Code] = []
    gone = strange = 0
    crc_before, cubin, lines = -1, None, None
    sections: dict[int, int] = {}
    for crc, name in sampled:
        if crc != crc_before:
            cubin = device_code.cubin(folder, crc)
            lines = triton.lines(cubin, name) if cubin else None
            crc_before, sections = crc, {}
        if cubin is None or lines is None:
            gone += 1
            continue
        function = cubin.find(name)
        if function is None:
            strange += 1
            continue
        if function.section not in sections:
            sections[function.section] = len(codes)
            codes.append(Code(cubin.header, cubin.code(function.section)))
        functions.append(_Sampled(crc, name, cubin, function, lines, sections[function.section]))
    notes = []
    if gone:
        notes.append(f"the device code of {_sampled_functions(gone)} was not kept: they have no lines and no instructions")
    if strange:
        notes.append(f"{_sampled_functions(strange)} could not be found in the device code: they have no lines and no instructions")
    return functions, codes, notes


def _sampled_functions(count: int) -> str:
    return f"{count} sampled function{'s' if count > 1 else ''}"


def _failures(codes: list[Code], listings: dict[int, Listing], nvdisasm: Sequence[Path]) -> list[str]:
    if not codes or len(listings) == len(codes):
        return []
    if not nvdisasm:
        return [NO_TOOL]
    return [
        f"{nvdisasm[0]} could not read {len(codes) - len(listings)} of {len(codes)} sampled kernels: they have no instructions; "
        "for a GPU newer than it, `pip install -U nvidia-cuda-nvdisasm`"
    ]


def _instructions(functions: list[_Sampled], listings: dict[int, Listing]) -> pl.DataFrame:
    parts = []
    for one in functions:
        rows = list(_texts(one, listings.get(one.code, [])))
        frame = pl.DataFrame(rows, schema={"offset": pl.UInt32, "sass": pl.String}, orient="row")
        parts.append(frame.select(cubin=pl.lit(one.crc, pl.UInt64), function=pl.lit(one.name), offset="offset", sass="sass"))
    return pl.concat(parts) if parts else pl.DataFrame(schema=INSTRUCTIONS)


def _texts(one: _Sampled, listing: Listing) -> Iterator[tuple[int, str]]:
    """Offset and SASS of a function's instructions. The target of a jump or call is the name of a function, otherwise the offset."""
    inside = {function.start: function.name for function in one.cubin.inside(one.function.section) if function != one.function}
    outside = one.cubin.relocations(one.cubin.elf.sections[one.function.section].name)
    called = {place.offset - place.offset % INSTRUCTION_BYTES: name for place in outside if (name := one.cubin.name_at(place))}
    for instruction in listing:
        if not one.function.covers(instruction.offset):
            continue
        target = ""
        if instruction.target is not None:
            at = instruction.target - one.function.start
            target = _inner_name(inside[instruction.target]) if at and instruction.target in inside else f"{at:#x}"
        text = instruction.text(target)
        if "CALL" in text and text.endswith(" 0x0") and instruction.offset in called:
            text = text.removesuffix("0x0") + _inner_name(called[instruction.offset])
        yield instruction.offset - one.function.start, text


@dataclass(slots=True)
class _Lines:
    """The rows of `gpu_lines`: there are few different chains for many instructions."""

    files: set[File] = field(default_factory=set)
    _chains: dict[tuple[str, str, Chain], int] = field(default_factory=dict)
    _parts: list[pl.DataFrame] = field(default_factory=list)

    def add(self, one: _Sampled, listing: Listing | None) -> None:
        function = one.function
        offsets: Iterable[int] = range(0, function.size, INSTRUCTION_BYTES)
        if listing:
            offsets = [instruction.offset - function.start for instruction in listing if function.covers(instruction.offset)]
        chains = ((offset, one.lines.chain(function.section, function.start + offset)) for offset in offsets)
        placed = [(offset, self._number(one, function.start + offset, chain)) for offset, chain in chains if chain]
        frame = pl.DataFrame(placed, schema={"offset": pl.UInt32, "chain": pl.UInt32}, orient="row")
        self._parts.append(frame.select(pl.lit(one.crc, pl.UInt64).alias("cubin"), pl.lit(one.name).alias("function"), "offset", "chain"))

    def frame(self) -> pl.DataFrame:
        if not self._parts:
            return pl.DataFrame(schema=LINES)
        places = {"chain": pl.UInt32, **{name: LINES[name] for name in ("depth", "name", "file", "line")}}
        chains = pl.DataFrame(list(self._places()), schema=places, orient="row")
        return pl.concat(self._parts).join(chains, on="chain").select(list(LINES)).sort("cubin", "function", "offset", "depth")

    def _number(self, one: _Sampled, address: int, chain: Chain) -> int:
        holder = next(
            (function.name for function in reversed(one.cubin.inside(one.function.section)) if function.covers(address)), one.name
        )
        key = one.name, holder, chain
        number = self._chains.get(key)
        if number is None:
            number = self._chains[key] = len(self._chains)
            self.files.update(place.file for place in chain)
        return number

    def _places(self) -> Iterator[tuple[int, int, str, str, int]]:
        names: dict[str, str] = {}
        for (kernel, holder, chain), number in self._chains.items():
            for depth, place in enumerate(chain):
                raw = place.function if depth else holder
                if raw not in names:
                    names[raw] = short_name(raw) if raw == kernel and not raw.startswith("$") else _inner_name(raw)
                yield number, depth, names[raw], clean(place.file.path), _line(place)


def _line(place: DeviceLine) -> int:
    return min(place.line, 0xFFFFFFFF)


def _inner_name(raw: str) -> str:
    """The short name of a device function."""
    return readable(own_name(raw)).short


def _frame(schema: Mapping[str, type[pl.DataType]], rows: list[tuple[object, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row")
