"""A range of a store as a profile: its windows become rows of the tables that a recording has, so that every view works on it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection

import polars as pl

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.layer_labels import LayerLabels
from aiflame.exchange.readers.sampled.samples import CPU, WALL, Sampled
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.kinds import OP_MODULE, Kind
from aiflame.store.layout import HOUR_S, begin_of, hours, parts
from aiflame.store.ranges import Range
from aiflame.store.tables import COLUMNS, Tables, latest, read, together

FORMAT = "store of aiflame agent"
_CLOCKS = {"cpu-time": CPU, "wall-time": WALL}
_TRIES, _MOST_NOTES = 5, 5
_LARGEST, _LAST_NS = 2.0**59, 1 << 62


def write_range(store: Folder, wanted: Range, making: Making) -> None:
    tables = read_range(store, wanted)
    windows = tables["windows"]
    if not len(windows):
        raise AiflameError(_why_empty(store, wanted))
    rows = Rows(tables, making, wanted)
    rows.write()
    making.realtime_ns = int(windows["begin_ns"].min())  # type: ignore[arg-type]
    making.command = tuple(windows["command"].value_counts(sort=True)["command"].head(1).to_list())
    recorded, processes = int(windows["took_ns"].sum()) / 1e9, windows["process"].n_unique()
    making.note(
        f"times are estimates for the whole range: {len(windows):,} windows of {processes:,} process{'es' if processes != 1 else ''},"
        f" {recorded:,.0f} s in all, stand for the {rows.lived_s:,.0f} s that these ran"
    )
    if without := _without_window(tables, wanted):
        making.note(without)
    for note in _of_recordings(windows):
        making.note(note)


def fingerprint(store: Folder, wanted: Range) -> list[str]:
    """It changes when the hours of a range do."""
    return [f"{hour}/{part}" for hour in (*_hours_of(store, wanted), *_hour_behind(store, wanted)) for part in parts(store, hour)]


def read_range(store: Folder, wanted: Range) -> Tables:
    """The windows that began in the range, with their values, stacks and frames; and the processes that were seen in it."""
    windows_of_hours = []
    for hour in _hours_of(store, wanted):
        whole = read_hour(store, hour)
        whole["windows"] = whole["windows"].filter(_condition(wanted))
        whole["values"] = whole["values"].join(whole["windows"].select("window"), on="window", how="semi")
        windows_of_hours.append(whole)
    windows_of_hours += [read_hour(store, hour, ("processes",)) for hour in _hour_behind(store, wanted)]
    return together(windows_of_hours)


def read_hour(store: Folder, hour: str, names: Collection[str] = COLUMNS) -> Tables:
    """The agent may merge the parts of an hour meanwhile: then they are read again. `names`: tables; the others are empty."""
    for _ in range(_TRIES):
        before = parts(store, hour)
        tables = [read(store, hour, part, names) for part in before]
        if parts(store, hour) == before:
            return together(tables)
        time.sleep(0.05)
    raise AiflameError(f"the agent writes {hour} of {store.path} all the time: try again")


def _hours_of(store: Folder, wanted: Range) -> list[str]:
    return [hour for hour in hours(store) if begin_of(hour) < wanted.end_s and begin_of(hour) + HOUR_S > wanted.begin_s]


def _hour_behind(store: Folder, wanted: Range) -> list[str]:
    """The hour behind the last one, if there is one: processes are in the hour in which they were written, which may be that."""
    return [hour for hour in hours(store) if wanted.end_s <= begin_of(hour) < wanted.end_s + HOUR_S]


def _condition(wanted: Range) -> pl.Expr:
    return pl.col("begin_ns").is_between(*_ns(wanted), closed="left") & _asked_for(wanted)


def _asked_for(wanted: Range) -> pl.Expr:
    rows = pl.lit(True)
    if wanted.command:
        expression = re.compile(wanted.command)
        rows &= pl.col("command").map_elements(lambda text: bool(expression.search(text)), return_dtype=pl.Boolean)
    for name in ("pid", "rank"):
        if text := getattr(wanted, name):
            rows &= pl.col(name).cast(pl.String) == text
    if wanted.user:
        rows &= pl.col("user") == wanted.user
    for name in ("cgroup", "version"):
        if text := getattr(wanted, name):
            rows &= pl.col(name).str.starts_with(text)
    return rows


def _ns(wanted: Range) -> tuple[int, int]:
    return int(wanted.begin_s * 1e9), int(wanted.end_s * 1e9)


class Rows:
    def __init__(self, tables: Tables, making: Making, wanted: Range) -> None:
        self._tables, self._making = tables, making
        self._rows = Sampled(making)
        self._layers = LayerLabels()
        stacks = tables["stacks"]
        self._stacks: dict[int, tuple[int, int]] = dict(
            zip(stacks["stack"].to_list(), zip(stacks["parent"].to_list(), stacks["frame"].to_list(), strict=True), strict=True)
        )
        self._frames = {number: self._rows.frames.number(frame) for number, frame in _frames(tables["frames"])}
        self._calls: dict[int, dict[int, int]] = {}
        lived = lived_ns(tables, wanted)
        self.lived_s = sum(lived["lived_ns"].to_list()) / 1e9
        self._factors = {
            process: max(in_range / max(recorded, 1), 1.0)
            for process, in_range, recorded in lived.select("process", "lived_ns", "took_ns").iter_rows()
        }

    def write(self) -> None:
        rows = self._rows
        values = self._owned_values()
        for metric, of_metric in values.partition_by("metric", as_dict=True, maintain_order=True).items():
            columns = (of_metric[name].to_numpy() for name in ("owner", "thread_row", "call", "scaled", "ended_ns"))
            if (clock := _CLOCKS.get(str(metric[0]))) is not None:
                rows.many(*columns, clock=clock)
            else:
                name, unit = str(metric[0]), of_metric["unit"][0]
                rows.many(*columns, kind=rows.kind(name, unit, name.replace("-", " ")))
        self._layers.add(self._making, max(rows.processes, 1))
        rows.finish()

    def _owned_values(self) -> pl.DataFrame:
        """The values with the rows of their processes, threads and calls, and for the whole range."""
        windows = self._tables["windows"].sort("begin_ns")
        numbers: dict[tuple[int, str], int] = {}
        owners: list[tuple[int, int, int, float]] = []
        for window, process, pid, command, rank, version, begin, took in windows.select(
            "window", "process", "pid", "command", "rank", "version", "begin_ns", "took_ns"
        ).iter_rows():
            key = process, command
            if key not in numbers:
                numbers[key] = self._rows.process(pid, _name(command, rank, version), key=f"{process} {command}")
            owners.append((window, numbers[key], min(begin + took, _LAST_NS), self._factors[process]))
        schema = {"window": pl.UInt64, "owner": pl.Int64, "ended_ns": pl.Int64, "factor": pl.Float64}
        values = self._tables["values"].join(pl.DataFrame(owners, schema, orient="row"), on="window", maintain_order="left")
        values = values.with_columns(scaled=(pl.col("value") * pl.col("factor")).round().clip(-_LARGEST, _LARGEST).cast(pl.Int64))
        values = _with(values, ("owner", "thread"), "thread_row", lambda process, thread: self._rows.thread(process, 0, thread))
        return _with(values, ("owner", "stack", "layer", "op"), "call", self._call_at)

    def _call_at(self, process: int, stack: int, layer: str, op: str) -> int:
        return self._call_of_layer(process, stack, layer, op) if layer or op else self._call(process, stack)

    def _call(self, process: int, stack: int) -> int:
        """The call at the inner end of a stack. Stacks share their callers, so each is made once."""
        calls = self._calls.setdefault(process, {0: -1})
        path = []
        while (call := calls.get(stack)) is None:
            path.append(stack)
            stack, _ = self._caller_and_frame(stack)
        for one in reversed(path):
            call = calls[one] = self._rows.numbered_call(process, call, self._frames[self._stacks[one][1]])
        return call

    def _call_of_layer(self, process: int, stack: int, layer: str, op: str) -> int:
        frames: list[AnyFrame] = []
        while stack:
            stack, frame = self._caller_and_frame(stack)
            frames.append(self._rows.frames.all[self._frames[frame]])
        call = -1
        for one in self._layers.placed(frames[::-1], layer, op):
            call = self._rows.call(process, call, one)
        return call

    def _caller_and_frame(self, stack: int) -> tuple[int, int]:
        if stack not in self._stacks:
            raise AiflameError("the store is damaged: it lacks a stack that a window has")
        return self._stacks[stack]


def _with(rows: pl.DataFrame, names: tuple[str, ...], column: str, number: Callable[..., int]) -> pl.DataFrame:
    """With the number of each row's values of `names`; `number` is asked once for each of these."""
    each = rows.select(names).unique(maintain_order=True)
    numbered = each.with_columns(pl.Series(column, [number(*row) for row in each.iter_rows()], dtype=pl.Int64))
    return rows.join(numbered, on=names, maintain_order="left", nulls_equal=True)


def lived_ns(tables: Tables, wanted: Range) -> pl.DataFrame:
    """For each process with windows, how long they are (`took_ns`), and how long it ran in the range while an agent did (`lived_ns`): the
    time that its windows and the times at which agents have seen it cover. A time without an agent is in none of them."""
    windows = tables["windows"].select("process", found_ns="begin_ns", seen_ns=pl.col("begin_ns") + pl.col("took_ns"))
    seen = tables["processes"].select("process", "found_ns", "seen_ns")
    begin, end = _ns(wanted)
    covered = pl.col("seen_ns").cum_max().shift(1, fill_value=0).over("process")
    new = pl.min_horizontal("seen_ns", end) - pl.max_horizontal("found_ns", covered, begin)
    lived = (
        pl.concat([windows, seen])
        .sort("process", "found_ns")
        .select("process", lived_ns=pl.max_horizontal(new, 0))
        .group_by("process")
        .agg(pl.col("lived_ns").sum())
    )
    took = tables["windows"].group_by("process").agg(pl.col("took_ns").sum())
    return took.join(lived, on="process").with_columns(pl.max_horizontal("lived_ns", "took_ns").alias("lived_ns"))


def _without_window(tables: Tables, wanted: Range) -> str:
    """How many processes no value stands for; empty: none, or it is not known, since their users and versions are not kept."""
    if wanted.user or wanted.version:
        return ""
    begin, end = _ns(wanted)
    seen = latest(tables["processes"]).join(tables["windows"].select("process"), on="process", how="anti")
    seen = seen.filter((pl.col("found_ns") < end) & (pl.col("seen_ns") > begin) & _asked_for(wanted)).unique("process", keep="last")
    if not len(seen):
        return ""
    used = int(seen["cpu_ns"].sum()) / 1e9
    return f"{len(seen):,} more processes have no window here: values leave them out ({used:,.0f} s of CPU time in their whole lives)"


def _of_recordings(windows: pl.DataFrame) -> list[str]:
    """The notes of the windows, each once, the newest first: such as processor time of which there are no samples."""
    noted = windows.filter(pl.col("notes") != "").sort("begin_ns", descending=True)
    notes = list(dict.fromkeys(note for text in noted["notes"].to_list() for note in text.splitlines()))
    more = [f"{len(notes) - _MOST_NOTES:,} more notes of windows are left out"] if len(notes) > _MOST_NOTES else []
    return notes[:_MOST_NOTES] + more


def _frames(table: pl.DataFrame) -> list[tuple[int, AnyFrame]]:
    result: list[tuple[int, AnyFrame]] = []
    for number, name, kind, module, file, begin, line in table.select(
        "frame", "name", "kind", "module", "file", "begin", "line"
    ).iter_rows():
        if kind == Kind.PYTHON:
            result.append((number, PythonFrame(name, file, begin if begin <= line or not line else 0, line)))
        elif kind == Kind.OP:
            result.append((number, NamedFrame(name, Kind.CPP, OP_MODULE)))
        else:
            result.append((number, NamedFrame(name, _kind(kind), module, file, line or begin)))
    return result


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        return Kind.C


def _name(command: str, rank: int, version: str) -> str:
    """The words of a command are separated by NUL, as in a recording."""
    words = command.split(" ")
    return "\0".join([*words, *([f"rank={rank}"] if rank >= 0 else []), *([f"version={version}"] if version else [])])


def _why_empty(store: Folder, wanted: Range) -> str:
    there = hours(store)
    if not there:
        return f"{store.path} has no window yet: aiflame agent adds the first ones minutes after its start"
    written = [time.strftime("%Y-%m-%d %H:%M", time.localtime(begin_of(hour))) for hour in (there[0], there[-1])]
    return f"{store.path} has no window in this range, or none that was asked for: its hours are those from {written[0]} to {written[1]}"
