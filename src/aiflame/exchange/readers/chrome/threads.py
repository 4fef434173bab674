"""The processes and threads of a trace in Chrome's JSON."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from aiflame.exchange.readers.chrome.events import Events
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.values import dataclass

_MOST_ID = 1 << 32


@dataclass(frozen=True, slots=True)
class Threads:
    shift: int
    """From the file's times to the profile's."""
    main: int
    """The process that launched most work, else the one with most calls."""
    _processes: pl.DataFrame
    _threads: pl.DataFrame

    @staticmethod
    def of(events: Events, calls: Iterable[pl.DataFrame], shift: int) -> Threads:
        """`calls`: in pieces."""
        key = ["pid", "tid"]
        launching = (pl.col("correlation") >= 0).sum().alias("launching")
        pieces = [piece.group_by(key).agg(pl.col("begin").min(), pl.len().alias("many"), launching) for piece in calls]
        began = pl.concat(pieces).group_by(key).agg((pl.col("begin").min() + shift).clip(0), pl.col("many", "launching").sum())
        if began.is_empty():  # work of devices alone: a process without calls
            began = pl.DataFrame({"pid": [0], "tid": [0], "begin": [FIRST_NS], "many": [0], "launching": [0]}, schema=began.schema)
        began = began.with_columns(owner=_owner(events, began))
        of_owners = began.group_by(pid="owner").agg(pl.col("begin").min(), pl.col("many", "launching").sum())
        processes = of_owners.sort("begin", "pid").with_row_index("process")
        main = int(processes.sort("launching", "many", "process", descending=[True, True, False])["process"][0])
        processes, began = processes.drop("many", "launching"), began.drop("many", "launching")
        threads = began.join(processes.select(owner="pid", process="process"), on="owner").sort("process", "begin", "tid")
        threads = threads.with_columns(thread=pl.int_range(1, pl.len() + 1).over("process").cast(pl.UInt32))
        return Threads(shift, main, _named(events, processes), _named(events, threads))

    def with_rows(self, calls: pl.DataFrame) -> pl.DataFrame:
        """The calls with `process` and `thread` (rows of the profile's tables) and times on the profile's clock."""
        key = ["pid", "tid"]
        rows = calls.join(self._threads.select(*key, "process", "thread"), on=key, how="left", maintain_order="left")
        return rows.drop(key).with_columns((pl.col("begin", "end") + self.shift).clip(0))

    def memory(self, events: Events) -> pl.DataFrame:
        """The moments at which memory was allocated or freed: process, moment, allocated, device_type."""
        rows = self.with_rows(events.memory.with_columns(end="begin"))
        process = pl.col("process").cast(pl.Int64).fill_null(self.main)
        return rows.select(process, "allocated", "device_type", moment="begin")

    def row_of(self, pid: int, tid: int) -> tuple[int, int]:
        """The process and the row of `threads` of a thread of the file."""
        rows = self._threads.filter(pl.col("pid") == pid, pl.col("tid") == tid).select("process", "thread").rows()
        return rows[0] if rows else (0, 0)

    def add(self, making: Making) -> None:
        own = self._processes
        making.add(
            "processes",
            own.select(
                "process",
                id=pl.lit(1),
                pid=_number("pid_text"),
                start_ns="begin",
                command=pl.when(pl.col("process_name") == "").then(pl.format("process {}", "pid_text")).otherwise("process_name"),
            ),
        )
        making.add(
            "threads",
            self._threads.select("process", id="thread", tid=_number("tid_text"), start_ns="begin", name="thread_name"),
        )

    def work(self, events: Events, calls: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """The work of devices with the process that it belongs to: that of the first call with its correlation id, else with its external
        id, else the main process."""
        work = events.take_work().with_columns((pl.col("begin", "end") + self.shift).clip(0))
        if len(self._processes) == 1:
            return work.with_columns(process=pl.lit(self.main, dtype=pl.Int64))
        rows = pl.concat([piece.select("call", "correlation", "external", "process") for piece in calls]).sort("call")
        launched = rows.filter(pl.col("correlation") >= 0).select("correlation", "process").unique("correlation", keep="first")
        by_op = rows.filter(pl.col("external") >= 0).select("external", of_op="process").unique("external", keep="first")
        return (
            work.join(launched, on="correlation", how="left", maintain_order="left")
            .join(by_op, on="external", how="left", maintain_order="left")
            .with_columns(process=pl.coalesce("process", "of_op", pl.lit(self.main)).cast(pl.Int64))
            .drop("of_op")
        )


def _owner(events: Events, began: pl.DataFrame) -> pl.Expr:
    """The pid whose process each thread belongs to. Kineto traces one process, and gives the pid 0 to threads that it does not know."""
    pids = began.group_by("pid").agg(pl.col("many").sum()).sort("many", "pid", descending=[True, False])["pid"]
    texts = events.texts_of(pids)
    others = pids.filter(texts != "0")
    if "schemaVersion" not in events.members or others.is_empty():
        return pl.col("pid")
    return pl.when(pl.col("pid").is_in(pids.filter(texts == "0").implode())).then(others[0]).otherwise("pid").cast(pids.dtype)


def _named(events: Events, owners: pl.DataFrame) -> pl.DataFrame:
    """With the texts of ids, and the names that the trace gives."""
    names = events.names.with_columns(what=events.texts_of(events.names["name"]), text=events.texts_of(events.names["given_name"]))
    own = names.filter(what="process_name").unique("pid", keep="last").select("pid", process_name="text")
    rows = owners.join(own, on="pid", how="left", maintain_order="left").with_columns(pid_text=events.texts_of(owners["pid"]))
    if "tid" in owners.columns:
        threads = names.filter(what="thread_name").unique(["pid", "tid"], keep="last").select("pid", "tid", thread_name="text")
        rows = rows.join(threads, on=["pid", "tid"], how="left", maintain_order="left").with_columns(
            tid_text=events.texts_of(owners["tid"])
        )
        rows = rows.with_columns(pl.col("thread_name").fill_null(""))
    return rows.with_columns(pl.col("process_name").fill_null(""))


def _number(column: str) -> pl.Expr:
    """An id as a number; 0 for one that is a text, or too large."""
    number = pl.col(column).cast(pl.Int64, strict=False)
    return pl.when(number.is_between(0, _MOST_ID - 1)).then(number).otherwise(0)
