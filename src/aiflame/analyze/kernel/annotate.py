"""A kernel in detail: its launches, and the samples and stall reasons of every source line and instruction.

A sample is at the instruction that could not be issued, which is seldom the cause: the latency of a load shows at the first instruction
that uses its value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import polars as pl

from aiflame.analyze.kernel.choice import Kernel, choose, kernels, took_ns
from aiflame.analyze.kernel.made_from import kept, made_from
from aiflame.analyze.kernel.source_text import SourceText, SourceTexts
from aiflame.attribute.devices.stall_samples import UNKNOWN, sampled_functions, samples_of_counter
from aiflame.attribute.trees.how_to_record import how_to_sample
from aiflame.errors import AiflameError
from aiflame.profile.schema.enums import GpuApi
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Count:
    samples: int = 0
    not_issued: int = 0
    """The part of `samples` in whose cycle the scheduler issued nothing: time that no other warp could use. It is a counter of its own, and
    may exceed `samples` in a damaged profile."""

    def __add__(self, other: Count) -> Count:
        return Count(self.samples + other.samples, self.not_issued + other.not_issued)


Reasons = Mapping[str, Count]
"""By short name, the most frequent first."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Instruction:
    offset: int
    sass: str
    """Empty if the code was not disassembled."""
    count: Count
    reasons: Reasons
    chain: tuple[CodeLine, ...]
    """The innermost line first, then the lines into which it was inlined; () if no line is known."""


@dataclass(frozen=True, slots=True)
class Block:
    """The instructions of a line that were inlined through the same calls."""

    callers: tuple[CodeLine, ...]
    """Innermost first; () for code that was not inlined."""
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class Line:
    file: str
    number: int
    text: str | None
    """None if the file's text is unknown."""
    count: Count
    inclusive: Count
    """Including the code that was inlined into this line."""
    reasons: Reasons
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class SourceFile:
    source: SourceText
    count: Count
    lines: tuple[Line, ...]
    """Lines with code of their own or inlined into them, in the order of the file."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The grid, block and resources with which a kernel was launched."""

    device: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    static_shared: int
    dynamic_shared: int
    local_bytes: int
    launches: int
    gpu_time_ns: int


@dataclass(frozen=True, slots=True)
class Sampling:
    """Stall sampling in the whole profile."""

    samples: int = 0
    dropped: int = 0
    periods: tuple[int, ...] = ()
    """Logarithms of the periods in cycles, ascending."""


@dataclass(frozen=True, slots=True)
class Annotation:
    kernel: Kernel
    others: tuple[Kernel, ...]
    """Other kernels that `wanted` matches."""
    total_gpu_time_ns: int
    """time of all kernels"""
    total_samples: int
    """samples of all kernels"""
    shapes: tuple[Shape, ...]
    """The shapes of its launches, the most frequent first."""
    sampling: Sampling
    cubin: int | None
    """The cubin whose code is shown; None without samples."""
    versions: Mapping[int, int]
    """Samples of each cubin that has a function of this name, the hottest first."""
    count: Count
    reasons: Reasons
    instructions: tuple[Instruction, ...]
    """Instructions in the order of the code: all of them if the code was disassembled, otherwise those with samples or a source line."""
    files: tuple[SourceFile, ...] = ()
    """The kernel's own file first, then the hottest."""
    homeless: tuple[Instruction, ...] = ()
    """Instructions without a source line, if others have one."""
    notes: tuple[str, ...] = ()
    made_from: tuple[str, ...] = ()
    """The ops from which a compiled kernel was fused."""
    kept: tuple[str, ...] = ()
    """Files of the profile with its intermediate representations."""
    language: str = "SASS"
    """The name of its instructions: SASS on NVIDIA's devices, ISA on others."""

    @property
    def disassembled(self) -> bool:
        return any(instruction.sass for instruction in self.instructions)


def annotate(
    profile: OpenedProfile,
    wanted: str,
    cubin: int | None = None,
    texts: SourceTexts | None = None,
    every: Sequence[Kernel] | None = None,
) -> Annotation:
    """The kernel that `wanted` matches, as compiled in one of its cubins (by default the one with the most samples). `texts`: the texts of
    its sources; by default those in the profile. `every`: all kernels, with their launches in its scope (default: in the whole run)."""
    every = kernels(profile) if every is None else every
    kernel, *others = choose(every, wanted)
    return annotation(profile, kernel, every, _shapes(profile, kernel.name), texts or SourceTexts(profile), cubin, tuple(others))


def annotator(profile: OpenedProfile, every: Sequence[Kernel], texts: SourceTexts) -> Callable[[Kernel], Annotation]:
    """Annotates many kernels of a profile, and reads their common tables once. `every`: all kernels of the profile (`choice.kernels`)."""
    shapes: dict[str, list[Shape]] = defaultdict(list)
    for name, shape in _all_shapes(profile):
        shapes[name].append(shape)
    return lambda kernel: annotation(profile, kernel, every, tuple(shapes[kernel.name]), texts)


def annotation(
    profile: OpenedProfile,
    kernel: Kernel,
    every: Sequence[Kernel],
    shapes: tuple[Shape, ...],
    texts: SourceTexts,
    cubin: int | None = None,
    others: tuple[Kernel, ...] = (),
) -> Annotation:
    samples = _samples(profile, kernel.name)
    versions = dict(samples.group_by("cubin").agg(pl.col("samples").sum()).sort("samples", "cubin", descending=[True, False]).rows())
    if cubin is not None and cubin not in versions:
        sampled = ", ".join(f"{crc:016x}" for crc in versions)
        raise AiflameError(
            f"{kernel.short} was not sampled in cubin {cubin:016x}: " + (f"use {sampled}" if sampled else "it has no samples")
        )
    chosen = cubin if cubin is not None else next(iter(versions), None)
    instructions = _instructions(profile, chosen, kernel.name, samples) if chosen is not None else ()
    files = _files(texts, instructions)
    return Annotation(
        kernel,
        others,
        sum(other.gpu_time_ns for other in every),
        sum(other.samples for other in every),
        shapes,
        _sampling(profile),
        chosen,
        versions,
        _sum(instruction.count for instruction in instructions),
        _merged(instruction.reasons for instruction in instructions),
        instructions,
        files,
        tuple(instruction for instruction in instructions if not instruction.chain) if files else (),
        tuple(_notes(profile, kernel, chosen, instructions)),
        made_from(profile, kernel.name),
        kept(profile, kernel.name),
        "ISA" if _is_amds(profile, kernel) else "SASS",
    )


def _shapes(profile: OpenedProfile, name: str) -> tuple[Shape, ...]:
    return tuple(shape for _, shape in _all_shapes(profile, name))


def _all_shapes(profile: OpenedProfile, name: str | None = None) -> Iterator[tuple[str, Shape]]:
    """The shapes of each kernel, or of only this one, the most frequent first."""
    dimensions = [f"{part}_{axis}" for part in ("grid", "block") for axis in "xyz"]
    facts = ["registers", "static_shared", "dynamic_shared", "local_bytes"]
    same = ["device", *dimensions, *facts]
    shapes = profile.scan("kernel_shapes")
    if name is not None:
        shapes = shapes.filter(pl.col("name") == name)
    # First by shape: there are millions of launches, but few shapes.
    took = profile.scan("kernels").group_by("process", "shape").agg(launches=pl.len(), time=took_ns())
    rows = (
        shapes.select("process", "name", *same, shape="id")
        .join(took, on=["process", "shape"])
        .group_by("name", *same)
        .agg(pl.col("launches").sum(), pl.col("time").sum())
        .sort("name", "launches", "time", *same, descending=[False, True, True, *[False] * len(same)])
        .collect()
        .rows()
    )
    for of, *row in rows:
        yield of, Shape(row[0], (row[1], row[2], row[3]), (row[4], row[5], row[6]), *row[7:])


def _samples(profile: OpenedProfile, name: str) -> pl.DataFrame:
    """cubin, offset, reason (short), samples, not_issued: summed over processes and windows."""
    functions = sampled_functions(profile).lazy().filter(pl.col("name") == name)
    counters = [
        samples_of_counter(profile, not_issued=not_issued).rename({"count": column})
        for column, not_issued in (("samples", False), ("not_issued", True))
    ]
    return (
        pl.concat(counters, how="diagonal")
        .join(functions, on=["process", "function"])
        .group_by("cubin", "offset", reason=pl.col("short").fill_null(UNKNOWN))
        .agg(pl.col("samples", "not_issued").sum())
        .sort("cubin", "offset", "samples", "reason", descending=[False, False, True, False])
        .collect()
    )


def _instructions(profile: OpenedProfile, cubin: int, name: str, samples: pl.DataFrame) -> tuple[Instruction, ...]:
    reasons: dict[int, dict[str, Count]] = defaultdict(dict)
    for offset, reason, total, part in samples.filter(pl.col("cubin") == cubin).select("offset", "reason", "samples", "not_issued").rows():
        reasons[offset][reason] = Count(total, part)
    sass: dict[int, str] = dict(_of_code(profile, "gpu_instructions", cubin, name, ["offset", "sass"]))
    chains: dict[int, list[CodeLine]] = defaultdict(list)
    for offset, _, *place in sorted(_of_code(profile, "gpu_lines", cubin, name, ["offset", "depth", "name", "file", "line"]), reverse=True):
        if place[2] or chains[offset]:  # code without a source line has line 0
            chains[offset].append(CodeLine(*place))
    return tuple(
        Instruction(offset, sass.get(offset, ""), _sum(reasons[offset].values()), reasons[offset], tuple(chains[offset]))
        for offset in sorted({*reasons, *sass, *chains})
    )


def _of_code(profile: OpenedProfile, table: str, cubin: int, name: str, columns: Sequence[str]) -> list[Any]:
    """Rows of a table that sealing derives from cubins, if it exists."""
    if not profile.has(table):
        return []
    return profile.scan(table).filter(pl.col("cubin") == cubin, pl.col("function") == name).select(columns).collect().rows()


def _files(texts: SourceTexts, instructions: Sequence[Instruction]) -> tuple[SourceFile, ...]:
    if not any(instruction.chain for instruction in instructions):
        return ()
    inclusive: dict[tuple[str, int], list[Instruction]] = defaultdict(list)
    for instruction in instructions:
        for place in dict.fromkeys((place.file, place.line) for place in instruction.chain):
            inclusive[place].append(instruction)
    result = []
    for path, places in groupby(sorted(inclusive), key=lambda place: place[0]):
        text = texts.of(path)
        lines = tuple(_line(text, number, inclusive[path, number]) for _, number in places if number)
        result.append(SourceFile(text, _sum(line.count for line in lines), lines))
    outermost = [instruction.chain[-1].file for instruction in instructions if instruction.chain]
    own = max(sorted(set(outermost)), key=outermost.count)
    return tuple(sorted(result, key=lambda file: (file.source.path != own, -file.count.samples, file.source.path)))


def _line(text: SourceText, number: int, within: Sequence[Instruction]) -> Line:
    """`within`: the instructions on this line or inlined into it."""
    own = [instruction for instruction in within if (instruction.chain[0].file, instruction.chain[0].line) == (text.path, number)]
    blocks: dict[tuple[CodeLine, ...], list[Instruction]] = defaultdict(list)
    for instruction in own:
        blocks[instruction.chain[1:]].append(instruction)
    hottest_first = sorted(blocks.items(), key=lambda block: (-_sum(one.count for one in block[1]).samples, block[1][0].offset))
    return Line(
        text.path,
        number,
        text.line(number),
        _sum(instruction.count for instruction in own),
        _sum(instruction.count for instruction in within),
        _merged(instruction.reasons for instruction in own),
        tuple(Block(callers, tuple(code)) for callers, code in hottest_first),
    )


def _sampling(profile: OpenedProfile) -> Sampling:
    windows = profile.table("gpu_windows")
    return Sampling(int(windows["samples"].sum()), int(windows["dropped"].sum()), tuple(sorted(set(windows["period_log2"]) - {0})))


def _notes(profile: OpenedProfile, kernel: Kernel, cubin: int | None, instructions: Sequence[Instruction]) -> Iterable[str]:
    """Notes on missing parts, with the reason and a remedy."""
    if not kernel.samples:
        yield how_to_sample(profile, kernel.name)
        return
    sass, lines = any(instruction.sass for instruction in instructions), any(instruction.chain for instruction in instructions)
    amd = _is_amds(profile, kernel)
    if not sass and not lines and not _kept(profile, cubin):
        missing, file = ("instructions", "code object") if amd else ("SASS", "cubin")
        yield f"no {missing} and no source lines: the kernel's {file} could not be kept while recording"
        return
    if amd:
        if not sass:
            yield "no instructions: no llvm-objdump here knows this GPU: install ROCm's LLVM (rocm-llvm), then open the profile again"
        if not lines:
            yield "no source lines: the kernel has no line table: compile HIP with -gline-tables-only (Triton does so by itself)"
        return
    if not sass:
        yield "no SASS: nvdisasm was not found, or could not read this cubin: pip install nvidia-cuda-nvdisasm, then open the profile again"
    if not lines:
        yield "no source lines: the kernel was compiled without a line table: compile CUDA C++ with -lineinfo (Triton does so by itself)"


def _is_amds(profile: OpenedProfile, kernel: Kernel) -> bool:
    shapes = profile.scan("kernel_shapes").filter(pl.col("name") == kernel.name, pl.col("api") == int(GpuApi.HIP))
    return bool(shapes.head(1).collect().height)


def _kept(profile: OpenedProfile, cubin: int | None) -> bool:
    return bool(profile.scan("cubins").filter(pl.col("crc") == cubin, pl.col("bytes") > 0).head(1).collect().height)


def _sum(counts: Iterable[Count]) -> Count:
    return sum(counts, Count())


def _merged(several: Iterable[Reasons]) -> Reasons:
    total: dict[str, Count] = defaultdict(Count)
    for reasons in several:
        for reason, count in reasons.items():
            total[reason] += count
    return dict(sorted(total.items(), key=lambda item: (-item[1].samples, item[0])))
