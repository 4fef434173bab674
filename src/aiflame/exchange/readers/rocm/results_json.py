"""`rocprofv3 --output-format json`: one object for each process, with arrays of records. They are read one by one; none is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.rocm.code_objects import CodeObject, beside
from aiflame.exchange.readers.rocm.gathered import OF_CALLS, OF_COPIES, OF_KERNELS, Gathered
from aiflame.exchange.readers.rocm.pc_samples import SAMPLES
from aiflame.exchange.readers.source import Source

Progress = Callable[[float], None]

_MOST = 1 << 30
_SPACE = re.compile(r"[ \t\r\n]*")
_BATCH = 100_000
_CALLS = ("hip_api", "hsa_api", "rccl_api", "marker_api", "rocdecode_api", "rocjpeg_api")
_SAMPLED = ("pc_sample_host_trap", "pc_sample_stochastic")
_ROOT = "rocprofiler-sdk-tool"
_LARGEST = 1 << 63


def is_one(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and f'"{_ROOT}"'.encode() in head[:4096]


def read(source: Source, making: Making, progress: Progress) -> None:
    text = source.whole(_MOST).decode("utf-8", "replace")
    gathered = Gathered()
    try:
        for process in _Text(text).members(0):
            if process[0] == _ROOT:
                for number, at in enumerate(_Text(text).elements(process[1])):
                    _Process(_Text(text), gathered, making, number, source.path.parent).read(at)
                    progress(0.8 * at / max(len(text), 1))
    except (ValueError, RecursionError):
        making.note("the trace is damaged: everything behind the damaged place is missing")
    gathered.write(making)


class _Text:
    """JSON, walked through without keeping it in memory."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decode = json.JSONDecoder(strict=False).raw_decode
        self.end = 0
        """Where the value that was walked through last ends."""

    def members(self, at: int) -> Iterator[tuple[str, int]]:
        """Name and place of each value of an object. Values that the caller does not walk through are passed over."""
        at = self._space(at)
        self._expect(at, "{")
        at = self._space(at + 1)
        while self._text[at : at + 1] != "}":
            name, at = self._decode(self._text, at)
            at = self._space(at)
            self._expect(at, ":")
            at = self._space(at + 1)
            self.end = -1
            yield str(name), at
            at = self._space(self.end if self.end >= 0 else self._over(at))
            at = self._next(at, "}")
        self.end = at + 1

    def elements(self, at: int) -> Iterator[int]:
        """The place of each value of an array."""
        at = self._space(at)
        self._expect(at, "[")
        at = self._space(at + 1)
        while self._text[at : at + 1] != "]":
            self.end = -1
            yield at
            at = self._space(self.end if self.end >= 0 else self._over(at))
            at = self._next(at, "]")
        self.end = at + 1

    def value(self, at: int) -> Any:
        value, self.end = self._decode(self._text, at)
        return value

    def _over(self, at: int) -> int:
        """The end of a value. Arrays are passed over value by value: they may be large."""
        if self._text[at : at + 1] == "[":
            for _ in self.elements(at):
                pass
            return self.end
        return int(self._decode(self._text, at)[1])

    def _next(self, at: int, closing: str) -> int:
        if self._text[at : at + 1] == ",":
            return self._space(at + 1)
        self._expect(at, closing)
        return at

    def _space(self, at: int) -> int:
        spaces = _SPACE.match(self._text, at)
        return spaces.end() if spaces else at

    def _expect(self, at: int, sign: str) -> None:
        if self._text[at : at + 1] != sign:
            raise ValueError(f"no {sign} at {at}")


class _Rows:
    """Rows in the making, as columns."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._rows: list[dict[str, Any]] = []
        self.parts: list[pl.DataFrame] = []

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) == _BATCH:
            self.flush()

    def flush(self) -> list[pl.DataFrame]:
        if self._rows:
            self.parts.append(pl.DataFrame(self._rows, schema=self._schema, strict=False))
            self._rows = []
        return self.parts


class _Process:
    def __init__(self, text: _Text, gathered: Gathered, making: Making, number: int, folder: Path) -> None:
        self._text, self._gathered, self._making, self._folder = text, gathered, making, folder
        self._pid = number
        self._operations: list[tuple[str, list[str]]] = []
        self._messages: dict[int, str] = {}
        self._kernel_names: dict[int, dict[str, Any]] = {}
        self._calls, self._kernels, self._copies = _Rows(OF_CALLS), _Rows(OF_KERNELS), _Rows(OF_COPIES)
        self._later: list[tuple[str, int]] = []
        self._samples = _Rows(SAMPLES)
        self._instructions: list[Any] = []
        self._comments: list[Any] = []
        self._objects: dict[int, dict[str, Any]] = {}
        self._snapshots: list[Any] = []
        self._sampled: set[int] = set()

    def read(self, at: int) -> None:
        """Names come in any order, so records are read when all is known."""
        self._text_at = at
        try:
            for name, place in self._text.members(at):
                self._part(name, place)
            end = self._text.end
            for section, place in self._later:
                self._section(section, place)
            self._text.end = end
            self._find_code()
        finally:
            self._gathered.calls += self._calls.flush()
            self._gathered.kernels += self._kernels.flush()
            self._gathered.copies += self._copies.flush()
            self._gathered.samples += self._samples.flush()

    def _part(self, name: str, at: int) -> None:
        if name == "metadata":
            self._metadata(_dict(self._text.value(at)))
        elif name == "strings":
            strings = _dict(self._text.value(at))
            self._operations = [
                (_str(one.get("kind")), [_str(of) for of in _list(one.get("operations"))]) for one in _dicts(strings.get("buffer_records"))
            ]
            self._instructions, self._comments = (_list(strings.get(f"pc_sample_{of}")) for of in ("instructions", "comments"))
            self._snapshots = _list(strings.get("code_object_snapshot_filenames"))
            self._messages = {
                number: _str(one.get("value")) for one in _dicts(strings.get("marker_api")) if (number := _int(one.get("key"))) is not None
            }
        elif name == "agents":
            for agent in self._each(at):
                handle = _int(_dict(agent.get("id")).get("handle"))
                if handle is not None:
                    self._gathered.agents[str(handle)] = _str(agent.get("product_name")) or _str(agent.get("name"))
        elif name == "kernel_symbols":
            for symbol in self._each(at):
                number = _int(symbol.get("kernel_id"))
                if number is not None:
                    self._kernel_names[number] = {
                        "name": _str(symbol.get("kernel_name")) or _str(symbol.get("formatted_kernel_name")),
                        "registers": _int(symbol.get("arch_vgpr_count")),
                    }
        elif name == "code_objects":
            for one in self._each(at):
                number = _int(one.get("code_object_id"))
                if number is not None:
                    self._objects[number] = one
        elif name == "buffer_records":
            for section, place in self._text.members(at):
                self._later.append((section, place))

    def _metadata(self, given: dict[str, Any]) -> None:
        pid = _int(given.get("pid"))
        if pid is not None and 0 <= pid < 1 << 32:
            self._pid = pid
        command = [_str(part) for part in _list(given.get("command"))]
        if command and not self._making.command:
            self._making.command = tuple(command[:1000])
            self._gathered.processes[self._pid] = " ".join(command)[:200]

    def _each(self, at: int) -> Iterator[dict[str, Any]]:
        for place in self._text.elements(at):
            value = self._text.value(place)
            if isinstance(value, dict):
                yield value

    def _section(self, section: str, at: int) -> None:
        count = 0
        for record in self._each(at):
            if section == "kernel_dispatch":
                self._kernel(record)
            elif section == "memory_copy":
                self._copy(record)
            elif section in _CALLS:
                self._call(section, record)
            elif section in _SAMPLED:
                self._sample(record)
            else:
                count += 1
        if count:
            self._making.unused[f"records of {section}"] += count

    def _common(self, record: dict[str, Any]) -> dict[str, Any]:
        given = record.get("correlation_id")
        correlation = _dict(given).get("internal") if isinstance(given, dict) else given
        return {
            "pid": self._pid,
            "tid": _int(record.get("thread_id")),
            "begin": _int(record.get("start_timestamp")),
            "end": _int(record.get("end_timestamp")),
            "correlation": _int(correlation) or 0,
        }

    def _operation(self, record: dict[str, Any]) -> tuple[str, str]:
        kind, operation = _int(record.get("kind")), _int(record.get("operation"))
        if kind is None or operation is None or not 0 <= kind < len(self._operations):
            return "", ""
        domain, names = self._operations[kind]
        return domain, names[operation] if 0 <= operation < len(names) else ""

    def _call(self, section: str, record: dict[str, Any]) -> None:
        row = self._common(record)
        domain, name = self._operation(record)
        if section == "marker_api":
            domain, name = "MARKER", self._messages.get(row["correlation"], name)
        self._calls.add({**row, "domain": domain or section, "name": name or "[call]"})

    def _kernel(self, record: dict[str, Any]) -> None:
        given = _dict(record.get("dispatch_info"))
        symbol = self._kernel_names.get(_int(given.get("kernel_id")) or 0, {})
        sizes = {
            f"{own}_{axis}": _int(_dict(given.get(of)).get(axis))
            for own, of in (("items", "grid_size"), ("block", "workgroup_size"))
            for axis in "xyz"
        }
        self._kernels.add(
            {
                **self._common(record),
                **sizes,
                "agent": _handle(given.get("agent_id")),
                "stream": _int(_dict(given.get("queue_id")).get("handle")),
                "name": symbol.get("name"),
                "dispatch": _int(given.get("dispatch_id")),
                "registers": symbol.get("registers"),
                "static_shared": _int(given.get("group_segment_size")),
                "local_bytes": _int(given.get("private_segment_size")),
            }
        )

    def _sample(self, record: dict[str, Any]) -> None:
        given, issued = _dict(record.get("record")), _dict(record.get("record")).get("wave_issued")
        index = _int(record.get("inst_index"))
        texts = [_str(of[index]) if index is not None and 0 <= index < len(of) else "" for of in (self._instructions, self._comments)]
        place = _dict(given.get("pc"))
        code_object, offset = _int(place.get("code_object_id")), _int(place.get("code_object_offset"))
        self._sampled.add(code_object or 0)
        self._samples.add(
            {
                "pid": self._pid,
                "dispatch": _int(given.get("dispatch_id")),
                "correlation": _int(_dict(given.get("corr_id")).get("internal")),
                "instruction": texts[0],
                "comment": texts[1],
                "issued": None if issued is None else int(bool(issued)),
                "reason": _str(_dict(given.get("snapshot")).get("stall_reason")),
                "code_object": code_object,
                "offset": offset,
            }
        )

    def _find_code(self) -> None:
        """The code objects of samples that lie beside the trace."""
        for number in sorted(self._sampled & set(self._objects)):
            one = self._objects[number]
            snapshot = _str(self._snapshots[number]) if 0 <= number < len(self._snapshots) else ""
            base, delta = _int(one.get("load_base")), _int(one.get("load_delta"))
            code = beside(self._folder, (snapshot,), _str(one.get("uri")))
            if code is not None and base is not None and delta is not None:
                self._gathered.code[self._pid, number] = CodeObject(code, base - delta)

    def _copy(self, record: dict[str, Any]) -> None:
        _, direction = self._operation(record)
        to_host = "DEVICE_TO_HOST" in direction
        self._copies.add(
            {
                **self._common(record),
                "agent": _handle(record.get("src_agent_id" if to_host else "dst_agent_id")),
                "stream": _int(_dict(record.get("stream_id")).get("handle")),
                "direction": direction,
                "bytes": _int(record.get("bytes")),
            }
        )


def _handle(value: object) -> str | None:
    number = _int(_dict(value).get("handle"))
    return None if number is None else str(number)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in _list(value) if isinstance(one, dict)]


def _str(value: object) -> str:
    return value if isinstance(value, str) else ""


def _int(value: object) -> int | None:
    return value if type(value) is int and -_LARGEST <= value < _LARGEST else None
