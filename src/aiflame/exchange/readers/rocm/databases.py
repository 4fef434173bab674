"""SQLite files of ROCm: rocpd, which rocprofv3 writes, and the older RPD of rocmProfileData."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import polars as pl

from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.rocm.gathered import Gathered
from aiflame.exchange.readers.sqlite_file import INT, TEXT, SqliteFile
from aiflame.exchange.readers.sqlite_pages import Kind

Progress = Callable[[float], None]

_OWN = re.compile(r"rocpd_kernel_dispatch(?P<own>.*)")
_MOST_RUNS = 1000
_NUMBERS: dict[str, Kind] = dict.fromkeys(("pid", "tid", "start", "end", "event_id"), INT)
_SIZES = [f"{of}_size_{axis}" for of in ("grid", "workgroup") for axis in "xyz"]


def is_rocm(tables: Mapping[str, object]) -> bool:
    return any(_OWN.fullmatch(name) for name in tables) or {"rocpd_op", "rocpd_api", "rocpd_string"} <= set(tables)


def read(file: SqliteFile, making: Making, progress: Progress) -> None:
    gathered = Gathered()
    if "rocpd_op" in file.tables and "rocpd_api" in file.tables:
        _read_rpd(file, gathered, making)
    else:
        runs = [match["own"] for name in file.tables if (match := _OWN.fullmatch(name))]
        for number, own in enumerate(runs[:_MOST_RUNS]):
            _Run(file, own, gathered, making).read()
            progress(0.8 * (number + 1) / len(runs))
    gathered.write(making)


class _Run:
    """The tables of one run: their names end alike."""

    def __init__(self, file: SqliteFile, own: str, gathered: Gathered, making: Making) -> None:
        self._file, self._own, self._gathered, self._making = file, own, gathered, making

    def read(self) -> None:
        self._strings = self._table("string", {"id": INT, "string": TEXT})
        self._pids = self._table("info_process", {"id": INT, "pid": INT, "command": TEXT})
        self._tids = self._table("info_thread", {"id": INT, "tid": INT, "pid": INT, "name": TEXT})
        self._events = self._table("event", {"id": INT, "stack_id": INT, "category_id": INT})
        self._agents = self._table("info_agent", {"id": INT, "type": TEXT, "name": TEXT, "product_name": TEXT})
        self._add_names()
        self._add_calls()
        self._add_kernels()
        self._add_copies()
        for name in ("sample", "pmc_event", "memory_allocate"):
            count = self._file.count(f"rocpd_{name}{self._own}") if f"rocpd_{name}{self._own}" in self._file.tables else 0
            if count:
                self._making.unused[f"rows of rocpd_{name}"] += count

    def _table(self, name: str, columns: dict[str, Kind]) -> pl.DataFrame:
        rows = self._file.read(f"rocpd_{name}{self._own}", columns)
        return rows.unique("id", keep="first", maintain_order=True) if "id" in columns else rows

    def _add_names(self) -> None:
        for _, pid, command in self._pids.drop_nulls("pid").iter_rows():
            self._gathered.processes[pid] = command or ""
            if command and not self._making.command:
                self._making.command = (command,)
        owned = self._tids.join(self._pids.select(pid="id", own="pid"), on="pid").drop_nulls(["own", "tid", "name"])
        self._gathered.threads |= {(pid, tid): name for pid, tid, name in owned.select("own", "tid", "name").iter_rows()}
        for number, _, name, product in self._agents.iter_rows():
            self._gathered.agents[f"{self._own}:{number}"] = product or name or ""

    def _placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """With the numbers of the system for process and thread, the correlation id, and times."""
        return (
            rows.join(self._pids.select(pid="id", own_pid="pid"), on="pid", how="left", maintain_order="left")
            .join(self._tids.select(tid="id", own_tid="tid"), on="tid", how="left", maintain_order="left")
            .join(self._events.rename({"id": "event_id"}), on="event_id", how="left", maintain_order="left")
            .with_columns(
                pid=pl.col("own_pid").fill_null(-1),
                tid=pl.col("own_tid").fill_null(-1),
                begin="start",
                correlation=pl.col("stack_id").fill_null(0),
            )
        )

    def _add_calls(self) -> None:
        rows = self._placed(self._file.read(f"rocpd_region{self._own}", {**_NUMBERS, "name_id": INT}))
        named = rows.join(self._strings.select(name_id="id", name="string"), on="name_id", how="left", maintain_order="left")
        of = self._strings.select(category_id="id", domain="string")
        self._gathered.calls.append(named.join(of, on="category_id", how="left", maintain_order="left"))

    def _add_kernels(self) -> None:
        columns = dict.fromkeys(("agent_id", "kernel_id", "queue_id", "private_segment_size", "group_segment_size", *_SIZES), INT)
        rows = self._placed(self._file.read(f"rocpd_kernel_dispatch{self._own}", {**_NUMBERS, **columns}))
        symbols = self._table("info_kernel_symbol", {"id": INT, "kernel_name": TEXT, "display_name": TEXT, "arch_vgpr_count": INT})
        named = rows.join(symbols.rename({"id": "kernel_id"}), on="kernel_id", how="left", maintain_order="left")
        sizes = {f"{own}_{axis}": pl.col(f"{of}_size_{axis}") for own, of in (("items", "grid"), ("block", "workgroup")) for axis in "xyz"}
        self._gathered.kernels.append(
            named.with_columns(
                name=pl.coalesce("kernel_name", "display_name"),
                agent=self._agent("agent_id"),
                stream="queue_id",
                registers="arch_vgpr_count",
                static_shared="group_segment_size",
                local_bytes="private_segment_size",
                **sizes,
            )
        )

    def _add_copies(self) -> None:
        columns = dict.fromkeys(("name_id", "dst_agent_id", "src_agent_id", "size", "stream_id"), INT)
        rows = self._placed(self._file.read(f"rocpd_memory_copy{self._own}", {**_NUMBERS, **columns}))
        named = rows.join(self._strings.select(name_id="id", direction="string"), on="name_id", how="left", maintain_order="left")
        to_host = pl.col("direction").fill_null("").str.contains("DEVICE_TO_HOST")
        self._gathered.copies.append(
            named.with_columns(
                agent=pl.when(to_host).then(self._agent("src_agent_id")).otherwise(self._agent("dst_agent_id")),
                stream="stream_id",
                bytes="size",
            )
        )

    def _agent(self, column: str) -> pl.Expr:
        return pl.when(pl.col(column).is_not_null()).then(pl.lit(f"{self._own}:") + pl.col(column).cast(pl.String))


def _read_rpd(file: SqliteFile, gathered: Gathered, making: Making) -> None:
    strings = file.read("rocpd_string", {"id": INT, "string": TEXT}).unique("id", keep="first")
    calls = file.read("rocpd_api", {**dict.fromkeys(("id", "pid", "tid", "start", "end", "apiName_id", "args_id"), INT)})
    calls = calls.join(strings.select(apiName_id="id", name="string"), on="apiName_id", how="left", maintain_order="left")
    calls = calls.join(strings.select(args_id="id", text="string"), on="args_id", how="left", maintain_order="left")
    is_mark = pl.col("name").fill_null("").is_in(["UserMarker", "roctx"])
    gathered.calls.append(
        calls.with_columns(
            begin="start",
            correlation="id",
            domain=pl.when(is_mark).then(pl.lit("ROCTX")).otherwise(pl.lit("")),
            name=pl.when(is_mark).then("text").otherwise("name"),
        )
    )
    pairs = file.read("rocpd_api_ops", {"api_id": INT, "op_id": INT}).drop_nulls().unique("op_id", keep="first")
    work = file.read("rocpd_op", dict.fromkeys(("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id"), INT))
    work = (
        work.join(pairs.rename({"op_id": "id"}), on="id", how="left", maintain_order="left")
        .join(strings.select(description_id="id", name="string"), on="description_id", how="left", maintain_order="left")
        .join(strings.select(opType_id="id", kind="string"), on="opType_id", how="left", maintain_order="left")
        .with_columns(
            pid=pl.lit(-1),
            begin="start",
            correlation=pl.col("api_id").fill_null(0),
            stream="queueId",
            agent="GPU " + pl.col("gpuId").cast(pl.String),
        )
    )
    if calls["pid"].n_unique() == 1:
        work = work.with_columns(pid=pl.lit(calls["pid"][0], dtype=pl.Int64))
    is_copy = pl.col("kind").fill_null("").str.contains("(?i)copy|fill|memset")
    sizes = [f"{of}{axis}" for of in ("grid", "workgroup") for axis in "XYZ"]
    columns = ("api_ptr_id", *sizes, "groupSegmentSize", "privateSegmentSize")
    shapes = file.read("rocpd_kernelapi", dict.fromkeys(columns, INT))
    called = calls.select(api_id="id", call="name").unique("api_id", keep="first")
    kernels = work.filter(~is_copy).join(called, on="api_id", how="left", maintain_order="left")
    kernels = kernels.join(
        shapes.unique("api_ptr_id", keep="first"), left_on="api_id", right_on="api_ptr_id", how="left", maintain_order="left"
    )
    gathered.kernels.append(
        kernels.with_columns(
            name=pl.when(pl.col("name") == "").then("kind").otherwise("name"),
            static_shared="groupSegmentSize",
            local_bytes="privateSegmentSize",
            **{f"{own}_{axis}": pl.col(f"{of}{axis.upper()}") for own, of in (("block", "workgroup"),) for axis in "xyz"},
            **{f"items_{axis}": _items(axis.upper()) for axis in "xyz"},
        )
    )
    bytes_of = file.read("rocpd_copyapi", {"api_ptr_id": INT, "size": INT, "kind": INT}).unique("api_ptr_id", keep="first")
    copies = work.filter(is_copy).join(
        bytes_of.rename({"kind": "way"}), left_on="api_id", right_on="api_ptr_id", how="left", maintain_order="left"
    )
    gathered.copies.append(copies.with_columns(direction="kind", bytes="size"))
    if "rocpd_monitor" in file.tables and (count := file.count("rocpd_monitor")):
        making.unused["rows of rocpd_monitor"] += count


def _items(axis: str) -> pl.Expr:
    """By the arguments of the call: most calls count workgroups, one of them work items."""
    grid, block = pl.col(f"grid{axis}"), pl.col(f"workgroup{axis}")
    return pl.when(pl.col("call") == "hipExtModuleLaunchKernel").then(grid).otherwise(grid * block)
