"""Our files against the types of the Firefox Profiler's processed format, and our reading of them.

TYPES has those of its `src/types/profile.ts` (commit df31314e16bf, version 70) for the parts that we write; version 66 has the library of a
frame in `resourceTable` and is otherwise the same. TypeScript compared our files with the types themselves at that commit.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from calling import run_aiflame
from exported_profiles import training

import aiflame
from aiflame.analyze.top import top
from aiflame.attribute.trees.build import tree
from aiflame.profile.tables.interface import Tables

TRACE = Path(__file__).parents[3] / "data" / "traces" / "kineto" / "torch2.13_modules.json.gz"

# A type is a name of TYPES, [type] for a list, or values, of which one must be there: Python types, None, and texts and numbers themselves.
INT, NUMBER, TEXT, BOOL = {int}, {int, float}, {str}, {bool}
MAYBE_INT = {int, None}
COLORS = {
    *("transparent", "purple", "green", "orange", "yellow", "lightblue", "blue", "brown", "magenta", "red", "lightred", "darkgrey", "grey"),
}
PLACES = {"marker-chart", "marker-table", "timeline-overview", "timeline-memory", "timeline-ipc", "timeline-fileio", "stack-chart"}
TYPES: dict[str, dict[str, Any]] = {
    "Profile": {
        "meta": "ProfileMeta", "libs": ["Lib"], "pages?": [INT], "counters?": [INT], "profilerOverhead?": [INT], "shared": "Shared",
        "threads": ["RawThread"],
    },
    "ProfileMeta": {
        "interval": NUMBER, "startTime": NUMBER, "processType": INT, "extensions?": "ExtensionTable", "categories?": ["Category"],
        "product": TEXT, "stackwalk": {0, 1}, "debug?": BOOL, "version": INT, "preprocessedProfileVersion": INT, "oscpu?": TEXT,
        "symbolicated?": BOOL, "markerSchema": ["MarkerSchema"], "sampleUnits?": "SampleUnits", "importedFrom?": TEXT,
        "usesOnlyOneStackType?": BOOL, "sourceCodeIsNotOnSearchfox?": BOOL,
    },
    "ExtensionTable": {"baseURL": [TEXT], "id": [TEXT], "name": [TEXT], "length": INT},
    "Category": {"name": TEXT, "color": COLORS, "subcategories": [TEXT]},
    "SampleUnits": {"time": {"ms", "bytes"}, "eventDelay": {"ms"}, "threadCPUDelta": {"ns", "µs", "variable CPU cycles"}},
    "MarkerSchema": {"name": TEXT, "tableLabel?": TEXT, "chartLabel?": TEXT, "display": [PLACES], "fields": ["Field"]},
    "Field": {"key": TEXT, "label?": TEXT, "format": {"string", "duration", "bytes", "integer"}},
    "Lib": {
        "arch": TEXT, "name": TEXT, "path": TEXT, "debugName": TEXT, "debugPath": TEXT, "breakpadId": TEXT, "codeId": {str, None},
    },
    "Shared": {
        "stackTable": "RawStackTable", "frameTable": "RawFrameTable", "funcTable": "FuncTable", "resourceTable": "ResourceTable",
        "nativeSymbols": "NativeSymbolTable", "stringArray": [TEXT], "sources": "SourceTable", "sourceLocationTable": "SourceLocationTable",
    },
    "RawStackTable": {"frame": [INT], "prefixOffset": [INT], "length": INT},
    "RawFrameTable": {
        "address": [INT], "inlineDepth": [INT], "category": [MAYBE_INT], "subcategory": [MAYBE_INT], "func": [INT],
        "nativeSymbol": [MAYBE_INT], "innerWindowID": [MAYBE_INT], "line": [MAYBE_INT], "column": [MAYBE_INT],
        "originalLocation": [MAYBE_INT], "length": INT,
    },
    "FuncTable": {
        "name": [INT], "isJS": [BOOL], "relevantForJS": [BOOL], "resource": [INT], "source": [MAYBE_INT], "lineNumber": [MAYBE_INT],
        "columnNumber": [MAYBE_INT], "originalLocation": [MAYBE_INT], "length": INT,
    },
    "ResourceTable": {"length": INT, "lib": [MAYBE_INT], "name": [INT], "host": [MAYBE_INT], "type": [{0, 1, 2, 3, 4, 5}]},
    "NativeSymbolTable": {"libIndex": [INT], "address": [INT], "name": [INT], "functionSize": [MAYBE_INT], "length": INT},
    "SourceTable": {
        "length": INT, "id": [{str, None}], "filename": [INT], "startLine": [INT], "startColumn": [INT], "sourceMapURL": [MAYBE_INT],
        "content": [{str, None}],
    },
    "SourceLocationTable": {"source": [INT], "line": [INT], "column": [INT], "length": INT},
    "RawThread": {
        "processType": TEXT, "processStartupTime": NUMBER, "processShutdownTime": {int, float, None}, "registerTime": NUMBER,
        "unregisterTime": {int, float, None}, "pausedRanges": [INT], "showMarkersInTimeline?": BOOL, "name": TEXT, "isMainThread": BOOL,
        "processName?": TEXT, "pid": TEXT, "tid": {int, str}, "samples": "RawSamplesTable", "markers": "RawMarkerTable",
    },
    "RawSamplesTable": {
        "stack": [MAYBE_INT], "time?": [NUMBER], "weight": [NUMBER], "weightType": {"samples", "tracing-ms", "bytes"},
        "threadCPUDelta?": [{int, float, None}], "length": INT,
    },
    "RawMarkerTable": {
        "data": ["Payload"], "name": [INT], "startTime": [{int, float, None}], "endTime": [{int, float, None}], "phase": [{0, 1, 2, 3}],
        "category": [INT], "length": INT,
    },
    "Payload": {"type": TEXT, **{f"{key}?": TEXT for key in ("layer", "op", "phase", "grid", "block", "bytes", "stack")}},
}  # fmt: skip


def misfits(value: Any, kind: Any, where: str = "profile") -> list[str]:
    """The places whose values have another type."""
    if isinstance(kind, str):
        if not isinstance(value, dict):
            return [f"{where}: {value!r} is no {kind}"]
        fields = {name.removesuffix("?"): (of, name.endswith("?")) for name, of in TYPES[kind].items()}
        unknown = [f"{where}.{name} is no field of {kind}" for name in value if name not in fields]
        missing = [f"{where}.{name} is missing" for name, (_, optional) in fields.items() if not optional and name not in value]
        inner = (misfits(value[name], of, f"{where}.{name}") for name, (of, _) in fields.items() if name in value)
        return [*unknown, *missing, *(one for each in inner for one in each)]
    if isinstance(kind, list):
        if not isinstance(value, list):
            return [f"{where}: {value!r} is no list"]
        return [one for at, item in enumerate(value) for one in misfits(item, kind[0], f"{where}[{at}]")]
    fits = value in kind if not isinstance(value, int | float | str) or any(not isinstance(one, type) for one in kind - {None}) else False
    return [] if fits or type(value) in kind else [f"{where}: {value!r} is none of {kind}"]


@pytest.fixture(scope="module", params=["recording", "trace"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, Path]:
    folder = tmp_path_factory.mktemp("firefox")
    profile = training(folder) if request.param == "recording" else aiflame.open(TRACE).store
    file = folder / "run.json"
    path = profile.path if request.param == "recording" else TRACE
    assert run_aiflame("export", str(path), "--to", "firefox", "-o", str(file)).status == 0
    return profile, file


def test_a_file_has_the_types_of_the_format(exported: tuple[Tables, Path]) -> None:
    whole = json.loads(exported[1].read_text())
    assert misfits(whole, "Profile") == []
    assert whole["meta"]["preprocessedProfileVersion"] == 66 and whole["threads"] and whole["shared"]["funcTable"]["length"]


def test_a_wrong_file_does_not_have_them(exported: tuple[Tables, Path]) -> None:
    whole = json.loads(exported[1].read_text())
    whole["meta"]["pausedRanges"] = []
    del whole["meta"]["stackwalk"]
    whole["threads"][0]["pid"] = 7
    whole["shared"]["funcTable"]["isJS"][0] = None
    whole["shared"]["resourceTable"]["type"].append(9)
    assert len(misfits(whole, "Profile")) == 5


def functions(profile: Tables, metric: str) -> Counter[tuple[str, str, str]]:
    own: Counter[tuple[str, str, str]] = Counter()
    for row in top(tree(profile, metric), "function", metric).to_dicts():
        own[row["name"], row["module"], row["file"]] += row["self"]
    return +own


def test_wall_clock_time_is_read_again_with_its_modules(exported: tuple[Tables, Path]) -> None:
    profile, file = exported
    whole = json.loads(file.read_text())
    whole["threads"] = [one for one in whole["threads"] if " stream " not in one["name"]]  # those of devices
    file.with_name("cpu.json").write_text(json.dumps(whole))
    assert functions(aiflame.open(file.with_name("cpu.json")).store, "wall-time") == functions(profile, "wall-time")


def test_version_70_has_libraries_of_frames(exported: tuple[Tables, Path]) -> None:
    """As the Firefox Profiler upgrades a file of version 66."""
    _, file = exported
    whole = json.loads(file.read_text())
    shared = whole["shared"]
    libraries = shared["resourceTable"].pop("lib")
    resource = [shared["funcTable"]["resource"][of] for of in shared["frameTable"]["func"]]
    shared["frameTable"]["lib"] = [libraries[one] if one >= 0 else -1 for one in resource]
    whole["meta"]["preprocessedProfileVersion"] = 70
    file.with_name("new.json").write_text(json.dumps(whole))
    assert functions(aiflame.open(file.with_name("new.json")).store, "wall-time") == functions(aiflame.open(file).store, "wall-time")
