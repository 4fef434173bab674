"""The Firefox Profiler's processed format (https://github.com/firefox-devtools/profiler, docs-developer/CHANGELOG-formats.md), version 66.

Threads have their CPU samples, each stream of a device is a thread whose samples are its kernels and copies, under the stacks that launched
them; steps, phases, layers, ops, calls and regions are markers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.timeline.stacks import Stacks
from aiflame.attribute.timeline.tables import SliceKind
from aiflame.attribute.timeline.whole import timeline
from aiflame.exchange.writers.facts import Facts
from aiflame.exchange.writers.firefox_threads import Thread, Threads
from aiflame.exchange.writers.strings import Strings
from aiflame.json_text import json_text
from aiflame.profile.schema.kinds import OP_MODULE, Kind
from aiflame.profile.tables.interface import Tables

PROCESSED_VERSION, GECKO_VERSION = 66, 24
_CATEGORIES = (
    ("Other", "grey"),
    ("Python", "blue"),
    ("Native", "yellow"),
    ("Kernel of the system", "orange"),
    ("GPU", "green"),
    ("Op", "purple"),
)
_CATEGORY_OF = {
    int(Kind.PYTHON): 1,
    int(Kind.C): 2,
    int(Kind.CPP): 2,
    int(Kind.OS_KERNEL): 3,
    int(Kind.GPU_KERNEL): 4,
    int(Kind.GPU_COPY): 4,
}
_OP, _GPU = 5, 4
_MARKER_OF = {
    SliceKind.STEP: "Step",
    SliceKind.PHASE: "Phase",
    SliceKind.LAYER: "Layer",
    SliceKind.OP: "Op",
    SliceKind.CALL: "Call",
    SliceKind.WAIT: "Wait",
    SliceKind.KERNEL: "Kernel",
    SliceKind.COPY: "Copy",
    SliceKind.REGION: "Region",
    SliceKind.MARK: "Mark",
    SliceKind.TRACED: "Traced call",
    SliceKind.SCOPE: "Inside a kernel",
}
"""The type of a marker."""
_FIELDS = ("layer", "op", "phase", "grid", "block", "bytes", "stack")
_LIBRARY = 1
_WRITE_ROWS = 1 << 16


def write(profile: Tables, facts: Facts, file: TextIO, *, samples: bool = True) -> int:
    """The number of samples and markers."""
    analysis = Analysis(profile)
    stacks = Stacks(analysis)
    threads = Threads(analysis, stacks, facts.clocks.monotonic_ns)
    without = frozenset({SliceKind.FUNCTION, SliceKind.WAITING})
    threads.add(timeline(analysis, samples=samples, without=without, taker=threads.add))
    if samples:
        threads.add_samples()
    shared = _Shared(stacks, threads)
    file.write(f'{{"meta":{json_text(_meta(facts))},"pages":[],"profilerOverhead":[],"counters":[],"threads":[')
    count = 0
    for number, thread in enumerate(threads.all()):
        file.write(",\n" if number else "\n")
        count += _thread(thread, threads, shared, file)
    file.write('\n],"shared":')
    shared.write(file)
    file.write(f',"libs":{json_text(shared.libraries())}}}\n')
    return count


def _meta(facts: Facts) -> dict[str, object]:
    fields = [{"key": key, "label": key.capitalize(), "format": "string"} for key in _FIELDS]
    schema = [
        {
            "name": name,
            "tableLabel": "{marker.name}",
            "chartLabel": "{marker.name}",
            "display": ["marker-chart", "marker-table"],
            "fields": fields,
        }
        for name in _MARKER_OF.values()
    ]
    return {
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": PROCESSED_VERSION,
        "product": " ".join(facts.command) or "aiflame",
        "importedFrom": facts.comments[0],
        "startTime": facts.since_1970(facts.clocks.monotonic_ns) / 1e6,
        "interval": 1,
        "processType": 0,
        "debug": False,
        "extensions": {"baseURL": [], "id": [], "length": 0, "name": []},
        "categories": [{"name": name, "color": color, "subcategories": ["Other"]} for name, color in _CATEGORIES],
        "markerSchema": schema,
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "symbolicated": True,
        "sourceCodeIsNotOnSearchfox": True,
        "usesOnlyOneStackType": True,
        "stackwalk": 1,
        "oscpu": facts.host,
    }


class _Shared:
    """Tables of all threads: stacks of the trie of functions that are used, and kernels below them."""

    def __init__(self, stacks: Stacks, threads: Threads) -> None:
        self.strings = Strings()
        self._files: dict[str, int] = {}
        self._modules: dict[str, int] = {}
        trie, parent = stacks.trie, threads.parent
        used = np.zeros(len(parent), dtype=np.bool_)
        at = threads.used_nodes()
        while len(at := np.unique(at[at > 0])):
            at = at[~used[at]]
            used[at] = True
            at = parent[at].astype(np.int64)
        nodes = np.flatnonzero(used)
        self._place = np.full(len(parent), -1, dtype=np.int64)
        self._place[nodes] = np.arange(len(nodes))
        outside = np.where(parent[nodes] > 0, self._place[parent[nodes]], -1)
        rows, frame = np.unique(trie.frame[nodes], return_inverse=True)
        functions = trie.frames[rows].select("name", "kind", "file", "line", "module").rows()
        self._functions = [
            (name, _OP if module == OP_MODULE else _CATEGORY_OF.get(kind, 0), file, line, module)
            for name, kind, file, line, module in functions
        ]
        pairs = threads.kernels()
        self._below = {pair: len(nodes) + row for row, pair in enumerate(pairs)}
        names = {name: len(self._functions) + row for row, name in enumerate(dict.fromkeys(name for _, name in pairs))}
        self._functions += [(threads.name(name), _GPU, "", 0, "") for name in names]
        self._frame = [*frame.tolist(), *(names[name] for _, name in pairs)]
        above = [*outside.tolist(), *(int(self._place[node]) if node > 0 else -1 for node, _ in pairs)]
        self._offset = [row - place if place >= 0 else 0 for row, place in enumerate(above)]

    def stack(self, node: int, kernel: int) -> int | None:
        """The row of a stack: a node of the trie, or a kernel below it."""
        row = self._below[node, kernel] if kernel >= 0 else int(self._place[node])
        return row if row >= 0 else None

    def libraries(self) -> list[dict[str, object]]:
        named = {"arch": "", "breakpadId": "", "codeId": None}
        return [{**named, "name": one, "path": one, "debugName": one, "debugPath": one} for one in self._modules]

    def write(self, file: TextIO) -> None:
        functions = self._functions
        text = self.strings.row
        sources = [self._files.setdefault(path, len(self._files)) if path else None for _, _, path, _, _ in functions]
        resources = [self._modules.setdefault(module, len(self._modules)) if module else -1 for *_, module in functions]
        count, none = len(functions), [None] * len(functions)
        tables: dict[str, dict[str, object]] = {
            "stackTable": {"frame": self._frame, "prefixOffset": self._offset, "length": len(self._frame)},
            "frameTable": {
                "address": [-1] * count,
                "inlineDepth": [0] * count,
                "category": [category for _, category, *_ in functions],
                "subcategory": [0] * count,
                "func": list(range(count)),
                "nativeSymbol": none,
                "innerWindowID": [0] * count,
                "line": [line or None for *_, line, _ in functions],
                "column": none,
                "originalLocation": none,
                "length": count,
            },
            "funcTable": {
                "name": [text(name or "[unknown]") for name, *_ in functions],
                "isJS": [False] * count,
                "relevantForJS": [False] * count,
                "resource": resources,
                "source": sources,
                "lineNumber": [line or None for *_, line, _ in functions],
                "columnNumber": none,
                "originalLocation": none,
                "length": count,
            },
            "resourceTable": {
                "lib": list(range(len(self._modules))),
                "name": [text(module) for module in self._modules],
                "host": [None] * len(self._modules),
                "type": [_LIBRARY] * len(self._modules),
                "length": len(self._modules),
            },
            "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0},
            "sourceLocationTable": {"source": [], "line": [], "column": [], "length": 0},
            "sources": {
                "id": [None] * len(self._files),
                "filename": [text(path) for path in self._files],
                "startLine": [1] * len(self._files),
                "startColumn": [1] * len(self._files),
                "sourceMapURL": [None] * len(self._files),
                "content": [None] * len(self._files),
                "length": len(self._files),
            },
        }
        file.write("{")
        for name, columns in tables.items():
            file.write(f'"{name}":{{')
            for number, (column, values) in enumerate(columns.items()):
                file.write(f'{"," if number else ""}"{column}":')
                file.write(str(values)) if isinstance(values, int) else _column(values, file)  # type: ignore[arg-type]
            file.write("},\n")
        file.write('"stringArray":')
        _column(list(self.strings.all()), file)
        file.write("}")


def _thread(thread: Thread, threads: Threads, shared: _Shared, file: TextIO) -> int:
    """Writes one thread; how many samples and markers it has."""
    head = {
        "name": thread.name,
        "isMainThread": thread.main,
        "pid": str(thread.pid),
        "tid": str(thread.tid),
        "processName": thread.process,
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "showMarkersInTimeline": bool(len(thread.markers)),
    }
    file.write(json_text(head)[:-1])
    samples = thread.samples.sort("begin_ns", maintain_order=True)
    file.write(f',"samples":{{"length":{len(samples)},"weightType":"tracing-ms","stack":')
    stacks = [shared.stack(*row) for row in samples.select("node", "kernel").iter_rows()]
    _column(stacks, file)
    for name, column in (("time", "begin_ns"), ("weight", "worth")):
        file.write(f',"{name}":')
        _numbers(_milliseconds(samples[column]), file)
    if "cpu" in samples.columns and samples["cpu"].null_count() == 0:
        file.write(',"threadCPUDelta":')
        _numbers(samples["cpu"].cast(pl.String).to_list(), file)
    markers = thread.markers.sort("begin_ns", maintain_order=True)
    moment = markers["kind"] == int(SliceKind.MARK)
    file.write(f'}},"markers":{{"length":{len(markers)},"name":')
    text_of = {row: shared.strings.row(threads.name(row)) for row in markers["name"].unique().to_list()}
    _column([text_of[row] for row in markers["name"].to_list()], file)
    for name, column in (("startTime", "begin_ns"), ("endTime", "end_ns")):
        file.write(f',"{name}":')
        _numbers(_milliseconds(markers[column]), file)
    file.write(',"phase":')
    _numbers(["0" if one else "1" for one in moment.to_list()], file)
    file.write(',"category":')
    _numbers([str(_GPU if kind in (SliceKind.KERNEL, SliceKind.COPY) else 0) for kind in markers["kind"].to_list()], file)
    file.write(',"data":[')
    for begin in range(0, len(markers), _WRITE_ROWS):
        rows = markers[begin : begin + _WRITE_ROWS].select("kind", "facts").iter_rows()
        file.write(("," if begin else "") + ",".join(_data(kind, threads.facts.get(facts, {})) for kind, facts in rows))
    file.write("]}}")
    return len(samples) + len(markers)


def _data(kind: int, facts: Mapping[str, str]) -> str:
    return json_text({"type": _MARKER_OF[SliceKind(kind)], **{key: facts[key] for key in _FIELDS if key in facts}}, separators=(",", ":"))


def _milliseconds(column: pl.Series) -> list[str]:
    """Nanoseconds as decimals, none lost."""
    size, sign = pl.col("ns").abs(), pl.when(pl.col("ns") < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    text = pl.concat_str(sign, (size // 1_000_000).cast(pl.String), pl.lit("."), (size % 1_000_000).cast(pl.String).str.zfill(6))
    texts: list[str] = pl.DataFrame({"ns": column.cast(pl.Int64)}).select(text).to_series().to_list()
    return texts


def _numbers(texts: Sequence[str], file: TextIO) -> None:
    file.write("[" + ",".join(texts) + "]")


def _column(values: Iterable[object], file: TextIO) -> None:
    file.write(json_text(list(values), separators=(",", ":")))
