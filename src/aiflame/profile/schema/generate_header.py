"""Writes the collector's C++ header: `python -m aiflame.profile.schema.generate_header OUTPUT`. Needs the standard library alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

from aiflame.profile.schema import all_tables, control_schema, enums, interpreter_schema, records


def header() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "// Generated from src/aiflame/profile/schema. Do not edit."
    yield "#pragma once"
    yield "#include <cstddef>"
    yield "#include <cstdint>"
    yield "namespace aiflame::schema {"
    yield f"inline constexpr uint32_t kFormat = {control_schema.FORMAT};"
    yield f"inline constexpr uint64_t kHeaderBytes = {all_tables.HEADER_BYTES};"
    yield f"inline constexpr uint64_t kSpoolMagic = {int.from_bytes(all_tables.SPOOL_MAGIC, 'little'):#x};"
    yield f"inline constexpr uint64_t kControlMagic = {int.from_bytes(control_schema.CONTROL_MAGIC, 'little'):#x};"
    for enum in (
        enums.FrameKind,
        enums.SampleState,
        enums.GpuApi,
        enums.CopyKind,
        enums.SyncKind,
        enums.AllocationKind,
        enums.PhysicalMemoryKind,
        enums.MemoryKind,
        enums.HostMemoryKind,
        enums.CallBackend,
        enums.CallKind,
        enums.RegionApi,
        enums.RegionKind,
        enums.PayloadType,
        control_schema.GpuSampling,
        control_schema.GpuCounters,
        control_schema.ControlState,
        control_schema.StopReason,
        control_schema.Feature,
        interpreter_schema.PythonChain,
    ):
        yield from _enum(enum)
    yield f"inline constexpr uint64_t kExactPc = {int(enums.LeafFlag.EXACT_PC):#x};"
    yield from _struct("SpoolHeader", all_tables.SPOOL_HEADER)
    yield from _struct("Control", control_schema.CONTROL)
    yield f"inline constexpr uint64_t kInterpreterMagic = {int.from_bytes(interpreter_schema.INTERPRETER_MAGIC, 'little'):#x};"
    yield from _struct("PythonLayout", interpreter_schema.PYTHON_LAYOUT)
    yield from _struct("Interpreter", interpreter_schema.INTERPRETER)
    for index, table in enumerate(all_tables.TABLES):
        yield f"// {table.doc}"
        extra = f"static constexpr uint32_t kTable = {index};", f'static constexpr const char* kName = "{table.name}";'
        yield from _struct(table.cpp, (records.COMMIT, *table.columns), *extra)
    for half in all_tables.LIVES:
        yield f"// {half.doc}"
        yield from _struct(half.cpp, (records.COMMIT, *half.columns))
    for name, value in {
        "kLivesPageBytes": all_tables.LIVES_PAGE_BYTES,
        "kLivesInPage": all_tables.LIVES_IN_PAGE,
        "kLivesPage": all_tables.LIVES_PAGE,
        "kLivesLongText": all_tables.LIVES_LONG_TEXT,
    }.items():
        yield f"inline constexpr uint32_t {name} = {value};"
    yield f"inline constexpr uint32_t kTables = {len(all_tables.TABLES)};"
    yield "#define AIFLAME_SCHEMA_RECORDS " + ", ".join(table.cpp for table in all_tables.TABLES)
    yield from _layouts()
    yield "}  // namespace aiflame::schema"


def _enum(enum: type[IntEnum]) -> Iterator[str]:
    yield f"enum class {enum.__name__} : uint64_t {{"
    yield from (f"  {member.name} = {int(member)}," for member in enum)
    yield "};"


def _struct(name: str, columns: tuple[Any, ...], *extra: str) -> Iterator[str]:
    """Padding has names: check words cover it, and a compiler need not preserve the value of unnamed bytes."""
    placed, size = records.layout(columns)
    yield f"struct alignas(8) {name} {{"
    end = 0
    for column, offset in placed:
        yield from _padding(end, offset)
        yield f"  {column.type.cpp} {column.name} = 0;"
        end = offset + int(column.type.numpy[-1])
    yield from _padding(end, size)
    yield from (f"  {line}" for line in extra)
    yield "};"
    yield from (f"static_assert(offsetof({name}, {column.name}) == {offset});" for column, offset in placed)
    yield f"static_assert(sizeof({name}) == {size});"


def _layouts() -> Iterator[str]:
    """Layouts for our Python code in the program, which writes to a table by its name. They hold no pointers, which would be relocated when
    the library is loaded."""
    longest = max(len(table.name) for table in all_tables.TABLES) + 1
    yield f"enum class Cell : uint8_t {{ {', '.join(records.Type.__members__)} }};"
    yield "struct ColumnLayout { uint16_t offset; Cell cell; };"
    yield f"struct TableLayout {{ char name[{longest}]; uint32_t table; uint16_t bytes, columns, first; }};"
    rows: list[str] = []
    columns: list[str] = []
    for table in all_tables.TABLES:
        rows.append(f"{{{table.name!a}, {table.cpp}::kTable, sizeof({table.cpp}), {len(table.columns)}, {len(columns)}}}".replace("'", '"'))
        placed, _ = records.layout((records.COMMIT, *table.columns))
        columns += [f"{{{offset}, Cell::{column.type.name}}}" for column, offset in placed[1:]]
    yield f"inline constexpr ColumnLayout kColumns[] = {{{', '.join(columns)}}};"
    yield f"inline constexpr TableLayout kLayouts[] = {{{', '.join(rows)}}};"
    largest = max(records.layout((records.COMMIT, *table.columns))[1] for table in all_tables.TABLES)
    yield f"inline constexpr size_t kLargestRecord = {largest};"


def _padding(begin: int, end: int) -> Iterator[str]:
    if begin < end:
        yield f"  uint8_t unused_{begin}[{end - begin}] = {{}};"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(header())
