"""A trace as torch.profiler (Kineto) writes it, for HTA, TraceLens and other readers of its traces.

Kernels, copies and launches are exact. Functions and ops come from launches and CPU samples (`kineto_calls`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TextIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest
from aiflame.attribute.meaning.context import BRINGS, CONTEXT, of_devices
from aiflame.attribute.timeline.context import Contexts
from aiflame.attribute.timeline.regions import placed_regions
from aiflame.attribute.timeline.stacks import Stacks
from aiflame.attribute.timeline.tables import Making, SliceKind
from aiflame.attribute.timeline.whole import launches_of, owners_of
from aiflame.attribute.timeline.work import device_work
from aiflame.exchange.writers.chrome import head
from aiflame.exchange.writers.event_text import Piece, at_least, members, microseconds, number, text
from aiflame.exchange.writers.facts import Facts
from aiflame.exchange.writers.json_events import Choice, EventFile, quoted
from aiflame.exchange.writers.kineto_calls import CALL, FUNCTION, LAYER, OP, Calls, Items
from aiflame.exchange.writers.kineto_devices import Devices, Work
from aiflame.profile.schema.enums import RegionApi, RegionKind
from aiflame.profile.schema.kinds import OP_MODULE, Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace

SCHEMA_VERSION = 1
_CATEGORIES = ("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "xpu_runtime", "xpu_driver", "privateuse1_runtime")
RUNTIMES = {"Runtime": "cuda_runtime", **{name: name for name in _CATEGORIES}}
"""Modules of functions in imported traces that are calls of a runtime → their category."""
NATIVE = "native_function"
"""Our own category: torch.profiler sees no native functions but ops and calls of runtimes."""
_LAYER = "nn.Module: "
_MODEL = "Model"
_STEP = "ProfilerStep#"
_WITHOUT = frozenset({SliceKind.STEP, SliceKind.PHASE, SliceKind.LAYER, SliceKind.OP})
_MEANT = {"optimizer": "Optimizer.step#{}.step", "data": "enumerate(DataLoader)#DataLoader.__next__"}
"""Torch's names for the regions that aiflame sees itself."""
_NO_LAUNCH = "[launch]"


def write(profile: Tables, facts: Facts, file: TextIO, *, samples: bool = True) -> int:
    """The number of events."""
    analysis = Analysis.of(profile)
    devices = Devices.of(analysis)
    members = {"schemaVersion": SCHEMA_VERSION, "deviceProperties": devices.properties(), **_distributed(analysis), **head(facts)}
    trace = _Trace(analysis, facts, EventFile(file, members), devices)
    trace.write(samples=samples)
    return trace.file.events


def _distributed(profile: Analysis) -> dict[str, object]:
    """Of a profile of one rank."""
    ranks = profile.table("ranks").select("rank", "size").unique()
    if len(ranks) != 1:
        return {}
    return {"distributedInfo": {"rank": ranks["rank"].item(), "world_size": ranks["size"].item()}}


class _Trace:
    def __init__(self, profile: Analysis, facts: Facts, file: EventFile, devices: Devices) -> None:
        self.file = file
        self._profile, self._facts, self._devices = profile, facts, devices
        self._base = facts.clocks.monotonic_ns
        self._pids: dict[int, int] = {}
        self._tids: dict[tuple[int, int], int] = {}

    def write(self, *, samples: bool) -> None:
        self._threads()
        annotated = self._regions()
        stacks = Stacks(self._profile)
        launches = launches_of(self._profile)
        meaning = of_devices(self._profile)
        self._profile.used(of_devices)
        meaning = replace(meaning, launches=meaning.launches.select(*CONTEXT, BRINGS))
        numbers = self._profile.scan("launches").select("autograd", "sequence").collect()
        items = Items.of(self._profile, stacks, meaning, launches.hstack(numbers), samples=samples, exact=self._facts.imported)
        del numbers
        if not annotated:
            self._steps(meaning.steps, int(items.end.max(initial=0)))
        external = np.zeros(len(launches), dtype=np.int64)
        names = _Names.of(stacks, meaning.forests, launches, self._classes())
        for calls in items.calls(meaning.forests["layer"].parent, names.models, external):
            self._calls(calls, items, names)
        del items
        making = Making(_WITHOUT, lambda part: work.add(part))
        work = Work(self.file, self._devices, self._base, external, self._original_names())
        owners = owners_of(self._profile, making)
        launched = device_work(self._profile, making, owners, Contexts(making, meaning), stacks, launches)
        work.add(making.finish())
        self._arrows(launches, np.flatnonzero(launched.records > 0))
        self.file.finish()

    def _classes(self) -> list[str]:
        """The classes of whole models."""
        types = self._profile.scan("layer_names").filter(pl.col("path") == "").select(pl.col("type").unique(maintain_order=True)).collect()
        return [str(name).rpartition(".")[2] for name in types["type"].to_list()]

    def _original_names(self) -> dict[str, str]:
        """The names of kernels that were never mangled, by our full names of them: torch.profiler's own names."""
        if not self._profile.has("kernel_names"):
            return {}
        names = self._profile.table("kernel_names").filter(~pl.col("name").str.starts_with("_Z"))
        return dict(names.select("full", "name").iter_rows())

    def _threads(self) -> None:
        """Numbers and names of processes and threads; no two have the same number."""
        events: list[dict[str, object]] = []
        making = Making()
        owners = owners_of(self._profile, making)
        used_pids = set(range(self._devices.count))
        for row in self._profile.table("processes").unique("process", keep="first", maintain_order=True).iter_rows(named=True):
            pid = row["pid"] if row["pid"] and row["pid"] not in used_pids else _FREE + row["process"]
            used_pids.add(pid)
            self._pids[row["process"]] = pid
            name = making.name_of_track(owners.process(row["process"]))
            for what, value in (
                ("process_name", {"name": name}),
                ("process_labels", {"labels": "CPU"}),
                ("process_sort_index", {"sort_index": pid}),
            ):
                events.append({"ph": "M", "name": what, "pid": pid, "tid": 0, "args": value})
        used: set[tuple[int, int]] = set()
        for row in self._profile.table("threads").iter_rows(named=True):
            key = row["process"], row["id"]
            tid = row["tid"] if row["tid"] and (row["process"], row["tid"]) not in used else _FREE + row["id"]
            used.add((row["process"], tid))
            self._tids[key] = tid
            name = making.name_of_track(owners.thread(*key))
            events.append({"ph": "M", "name": "thread_name", "pid": self._pid(row["process"]), "tid": tid, "args": {"name": name}})
        self.file.add_all([*events, *self._devices.names()])

    def _pid(self, process: int) -> int:
        return self._pids.setdefault(process, _FREE + process)

    def _places(self, process: NDArray[np.integer], thread: NDArray[np.integer]) -> tuple[pl.Series, pl.Series]:
        """pid and tid of each row."""
        key = process.astype(np.int64) << 32 | thread
        distinct, which = np.unique(key, return_inverse=True)
        pairs = [(one >> 32, one & 0xFFFFFFFF) for one in distinct.tolist()]
        pids = np.array([self._pid(of) for of, _ in pairs], dtype=np.int64)
        tids = np.array([self._tids.get(pair, _FREE + pair[1]) for pair in pairs], dtype=np.int64)
        return pl.Series("pid", pids[which]), pl.Series("tid", tids[which])

    def _regions(self) -> bool:
        """Annotations. True if steps are among them."""
        rows = placed_regions(self._profile)
        if rows.is_empty():
            return False
        named = []
        for api, name, payload in rows.select("api", "name", "payload").iter_rows():
            meant = _MEANT.get(name, "") if api == RegionApi.AUTOMATIC else ""
            named.append(quoted(meant.format(f"{payload:x}" if payload else "Optimizer") if meant else name or "[no name]"))
        pid, tid = self._places(rows["process"].to_numpy(), np.maximum(rows["owner"].to_numpy(), 0))
        name = Choice("named", named, np.arange(len(named)))
        rows = rows.with_columns(pid, tid, name.numbers, begin=pl.col("begin_ns") - self._base, took=pl.col("end_ns") - pl.col("begin_ns"))
        moment = pl.col("kind") == int(RegionKind.MARK)
        what = (text('","name":'), name.piece, *_WHERE)
        self.file.add(
            rows.filter(~moment), text('{"ph":"X","cat":"user_annotation'), *what, text(',"dur":'), microseconds("took"), text("}")
        )
        self.file.add(rows.filter(moment), text('{"ph":"i","s":"t","cat":"user_annotation'), *what, text("}"))
        return any(name.startswith(f'"{_STEP}') for name in named)

    def _steps(self, steps: pl.DataFrame, last: int) -> None:
        """`last`: when the last launch or sample ended; a step that has no other end ends after it."""
        pid, tid = self._places(steps["process"].to_numpy(), steps["thread"].to_numpy())
        end = pl.max_horizontal("begin_ns", pl.min_horizontal("end_ns", pl.lit(last + 1)))
        rows = steps.with_columns(pid, tid, begin=pl.col("begin_ns") - self._base, took=end - pl.col("begin_ns"))
        name = (text(f'{{"ph":"X","cat":"user_annotation","name":"{_STEP}'), number("step"), text('"'))
        self.file.add(rows, *name, *_WHERE, text(',"dur":'), microseconds("took"), text("}"))

    def _calls(self, calls: Calls, items: Items, names: _Names) -> None:
        if not len(calls.value):
            return
        which: NDArray[np.integer]
        if calls.kind == OP:
            named, which, categories = names.ops, items.op[calls.item], ["cpu_op"] * len(names.ops)
        elif calls.kind == FUNCTION:
            named, which, categories = names.functions, calls.value, names.categories
        elif calls.kind == LAYER:
            named, which, categories = names.layers, calls.value, ["python_function"] * len(names.layers)
        else:
            named, which, categories = names.launches, names.launch[calls.value], names.runtimes
        what = Choice("what", [f'{category}","name":{name}' for category, name in zip(categories, named, strict=True)], which)
        pid, tid = self._places(items.process[calls.item], items.thread[calls.item])
        rows = pl.DataFrame(
            {"begin": calls.begin - self._base, "took": calls.end - calls.begin, "number": calls.number, "value": calls.value}
        )
        rows = rows.with_columns(pid, tid, what.numbers)
        args: tuple[Piece, ...] = (text("}"),)
        if calls.kind == CALL:
            rows = rows.with_columns(correlation=pl.col("value").cast(pl.Int64) + 1)
            args = (text(',"args":{"correlation":'), number("correlation"), text("}}"))
        elif calls.number.any():
            sequence, forward = items.numbers_of_torch(calls.item)
            rows = rows.with_columns(sequence=pl.Series(sequence), forward=pl.Series(forward))
            of_autograd = (text(',"Sequence number":'), number("sequence"), text(',"Fwd thread id":'), number("forward"))
            said = (text(',"External id":'), number("number"), at_least("sequence", 0, *of_autograd))
            args = (members(at_least("number", 1, *said)), text("}"))
        self.file.add(rows, text('{"ph":"X","cat":"'), what.piece, *_WHERE, text(',"dur":'), microseconds("took"), *args)

    def _arrows(self, launches: pl.DataFrame, which: Ints) -> None:
        """The beginnings of arrows to kernels and copies."""
        for begin in range(0, len(which), 1 << 18):
            part = which[begin : begin + (1 << 18)]
            rows = launches.select("process", "thread", "begin_ns")[part]
            pid, tid = self._places(rows["process"].to_numpy(), rows["thread"].to_numpy())
            moment = pl.col("begin_ns").clip(upper_bound=1 << 62).cast(pl.Int64) - self._base
            rows = rows.with_columns(pid, tid, begin=moment, id=pl.Series(part + 1))
            self.file.add(rows, text('{"ph":"s","cat":"ac2g","name":"ac2g","id":'), number("id"), *_WHERE, text("}"))


_WHERE = (text(',"pid":'), number("pid"), text(',"tid":'), number("tid"), text(',"ts":'), microseconds("begin"))
_FREE = 1 << 23
"""No process and no thread has this number or a greater one."""
_RUNTIME_OF_CALL = (
    ("hip_runtime", re.compile(r"^hip|^hsa")),
    ("xpu_runtime", re.compile(r"^ze[A-Z]|^ur[A-Z]|^cl[A-Z]")),
    ("cuda_driver", re.compile(r"^cu[A-Z]")),
)


@dataclass(frozen=True, slots=True)
class _Names:
    """The JSON texts of names, by the value of a call; and categories."""

    functions: list[str]
    categories: list[str]
    layers: list[str]
    models: NDArray[np.bool_]
    """The layers that are whole models."""
    ops: list[str]
    launches: list[str]
    runtimes: list[str]
    launch: NDArray[np.uint32]
    """Of each launch, the row of the two before."""

    @staticmethod
    def of(stacks: Stacks, forests: Mapping[str, Forest], launches: pl.DataFrame, classes: Sequence[str]) -> _Names:
        trie = stacks.trie
        frames = [_function(*row) for row in trie.frames.select("name", "kind", "file", "line", "module").iter_rows()]
        of_node = [frames[row] for row in trie.frame.tolist()]
        of_layer, of_op = (forest.frames["name"].gather(forest.frame).to_list() for forest in (forests["layer"], forests["op"]))
        models = (forests["layer"].parent == 0) & np.isin(of_layer, classes)
        of_layer = _numbered(of_layer, models.tolist())
        of_layer[0] = f"{classes[0] if len(classes) == 1 else _MODEL}_0"
        process, stack = (launches[name].to_numpy().astype(np.int64) for name in ("process", "stack"))
        key = process << 32 | stack
        distinct, which = np.unique(key, return_inverse=True)
        calls = [name or _NO_LAUNCH for name in stacks.calls(distinct >> 32, distinct & 0xFFFFFFFF)]
        return _Names(
            [quoted(name) for name, _ in of_node],
            [category for _, category in of_node],
            [quoted(_LAYER + name) for name in of_layer],
            models,
            [quoted(name) for name in of_op],
            [quoted(name) for name in calls],
            [next((runtime for runtime, pattern in _RUNTIME_OF_CALL if pattern.search(name)), "cuda_runtime") for name in calls],
            which.astype(np.uint32),
        )


def _numbered(layers: Sequence[str], models: Sequence[bool]) -> list[str]:
    """The layers with numbers, as torch numbers the modules of a class: readers take two of one name and number for the same module. A
    model is the first of its class."""
    used = Counter(name for name, model in zip(layers, models, strict=True) if model)
    numbered = []
    for name, model in zip(layers, models, strict=True):
        numbered.append(f"{name}_{0 if model else used[name]}")
        used[name] += not model
    return numbered


def _function(name: str, kind: int, file: str, line: int, module: str) -> tuple[str, str]:
    """The name and the category of a function's calls."""
    if kind == Kind.PYTHON:
        return f"{file}({line}): {name}", "python_function"
    return name or "[unknown]", "cpu_op" if module == OP_MODULE else RUNTIMES.get(module, NATIVE)
