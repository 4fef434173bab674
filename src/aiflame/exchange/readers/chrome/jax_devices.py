"""Devices in the Chrome JSON of JAX's and TensorFlow's profiler: processes named `/device:GPU:0`, whose threads are streams.

The same events are in the XPlane file beside it, with more facts.
"""

from __future__ import annotations

import re

import polars as pl

from aiflame.exchange.readers.chrome.events import MISSING, Events
from aiflame.exchange.readers.making import Making

_DEVICE = re.compile(r"/device:[A-Z]+:(?P<number>\d{1,6})\b")
_STREAM = re.compile(r"Stream #(?P<number>\d{1,9})\b")
_SIZE = re.compile(r"\b(?:size|num_bytes):(\d{1,15})\b")
_KERNEL, _COPY, _CALL = "kernel", "gpu_memcpy", "cuda_driver"
"""Categories that Kineto gives to such events; JAX gives none."""
_IS_COPY = r"^Mem(cpy|set)"


def find_devices(events: Events, making: Making) -> None:
    """Moves the kernels and copies of streams from the calls of threads to the work of devices. Other threads of a device show sums of
    these: they are left out. Calls with a correlation id become calls of a runtime."""
    named = events.names.with_columns(what=events.texts_of(events.names["name"]), text=events.texts_of(events.names["given_name"]))
    processes = dict(named.filter(what="process_name").select("pid", "text").iter_rows())
    devices = {pid: int(match["number"]) for pid, text in processes.items() if (match := _DEVICE.match(text))}
    threads = [row for row in named.filter(what="thread_name").select("pid", "tid", "text").iter_rows() if row[0] in devices]
    streams = [(pid, tid, devices[pid], int(match["number"])) for pid, tid, text in threads if (match := _STREAM.match(text))]
    if not streams:
        return
    of_streams = pl.DataFrame(
        streams, schema={"pid": pl.UInt32, "tid": pl.UInt32, "device": pl.Int32, "stream": pl.Int64}, orient="row"
    ).unique(["pid", "tid"], keep="last")
    with_streams = of_streams["pid"].unique().implode()
    number = len(events.texts)
    events.texts = pl.concat([events.texts, pl.Series([_KERNEL, _COPY, _CALL], dtype=events.texts.dtype)])
    copied = events.copied.with_columns(bytes=pl.Series([_bytes(text) for text in events.texts_of(events.copied["copied"]).to_list()]))
    names = events.texts_of(pl.Series(range(number), dtype=pl.UInt32)) if number else pl.Series(dtype=pl.String)
    copies = pl.Series(names.str.contains(_IS_COPY).arg_true(), dtype=pl.UInt32)
    work, calls = [events.work], []
    for rows in events.take_calls():
        on_device = pl.col("pid").is_in(with_streams)
        rows = rows.with_row_index("row")
        on_streams = rows.filter(on_device).join(of_streams, on=["pid", "tid"], how="left", maintain_order="left")
        derived = on_streams.filter(pl.col("stream").is_null())
        for (tid,), own in derived.partition_by("tid", as_dict=True).items():
            line = next((text for _, of, text in threads if of == tid), "")
            making.unused[f"events of the derived line {line[:40]}"] += len(own)
        is_copy = pl.col("name").is_in(copies.implode())
        on_streams = on_streams.filter(pl.col("stream").is_not_null()).with_columns(cat=pl.when(is_copy).then(number + 1).otherwise(number))
        work.append(_as_work(on_streams, events.work, copied))
        launches = (pl.col("cat") == 0) & (pl.col("correlation") != MISSING)
        kept = rows.filter(~on_device).drop("row")
        calls.append(kept.with_columns(cat=pl.when(launches).then(number + 2).otherwise("cat").cast(kept.schema["cat"])))
    events.calls, events.work = calls, pl.concat(work)


def _as_work(rows: pl.DataFrame, work: pl.DataFrame, copied: pl.DataFrame) -> pl.DataFrame:
    """Rows with the columns of work; those that the trace lacks are 0 or MISSING."""
    sizes = copied.select("pid", "tid", "begin", "bytes").unique(["pid", "tid", "begin"], keep="first")
    rows = rows.join(sizes, on=["pid", "tid", "begin"], how="left", maintain_order="left").with_columns(pl.col("bytes").fill_null(0))
    lacking = dict.fromkeys(("node", "grid", "block"), 0) | dict.fromkeys(("registers", "shared"), MISSING)
    rows = rows.with_columns(pl.lit(value).alias(name) for name, value in lacking.items())
    return rows.select(pl.col(name).cast(kind) for name, kind in work.schema.items())


def _bytes(details: str) -> int:
    size = _SIZE.search(details)
    return int(size[1]) if size else 0
