"""Facts of an nsys report on the recording itself: names of processes, threads and devices, the command, warnings, the time of day."""

from __future__ import annotations

import re

import polars as pl

from aiflame.exchange.readers.devices.trace import DeviceTrace
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.nsys.ids import with_owner
from aiflame.exchange.readers.nsys.tables import Tables
from aiflame.exchange.readers.sqlite_file import INT, TEXT

_MOST_NOTES = 10
_LONGEST_NOTE = 300
_MOST_ARGUMENTS = 1000
_WARNING, _ERROR = 2, 3


def add_facts(trace: DeviceTrace, making: Making, file: Tables, strings: pl.DataFrame) -> None:
    _add_names(trace, file, strings)
    _add_devices(trace, file)
    start = file.read("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": INT})["utcEpochNs"].drop_nulls()
    if len(start):
        trace.since_1970 = int(start[0])
    making.command = _command(file)
    _add_warnings(making, file)


def sampling_period(file: Tables) -> int:
    """Nanoseconds between two samples of a busy thread; 0: not known."""
    rates = [int(value) for value in _captured(file).get("RATE_HZ", []) if value.isdecimal() and len(value) < 10]
    return 10**9 // rates[0] if rates and rates[0] else 0


def _add_names(trace: DeviceTrace, file: Tables, strings: pl.DataFrame) -> None:
    processes = file.read("PROCESSES", {"globalPid": INT, "name": TEXT})
    trace.processes = dict(with_owner(processes, "globalPid").drop_nulls("name").select("pid", "name").iter_rows())
    threads = with_owner(file.read("ThreadNames", {"nameId": INT, "globalTid": INT}), "globalTid")
    named = threads.join(strings.rename({"id": "nameId"}), on="nameId", maintain_order="left").drop_nulls("value")
    trace.threads = {(pid, tid): name for pid, tid, name in named.select("pid", "tid", "value").iter_rows()}


def _add_devices(trace: DeviceTrace, file: Tables) -> None:
    """A process numbers the devices that it sees; nsys all of them. Most often the numbers are the same."""
    rows = file.read("TARGET_INFO_GPU", {"id": INT, "deviceId": INT, "cuDevice": INT, "name": TEXT, "busLocation": TEXT})
    rows = rows.with_columns(number=pl.coalesce("cuDevice", "id", "deviceId")).drop_nulls("number")
    for number, name, address in rows.select("number", "name", "busLocation").iter_rows():
        trace.devices = {**trace.devices, number: f"{name or 'GPU'} [{max(number, 0)}]"}
        if address:
            trace.addresses = {**trace.addresses, number: address}
    if not trace.devices:
        used = {
            number
            for name in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
            for number in file.read(name, {"deviceId": INT})["deviceId"].drop_nulls().unique().to_list()
        }
        trace.devices = {number: f"GPU [{max(number, 0)}]" for number in sorted(used)[:1000]}


def _captured(file: Tables) -> dict[str, list[str]]:
    rows = file.read("META_DATA_CAPTURE", {"name": TEXT, "value": TEXT}).drop_nulls()
    values: dict[str, list[str]] = {}
    for name, value in rows.iter_rows():
        values.setdefault(name, []).append(value)
    return values


def _command(file: Tables) -> tuple[str, ...]:
    """The command that nsys started. Variables of its environment stay in the file."""
    captured = _captured(file)
    program = captured.get("PROCESS_0:COMMAND", [])
    if not program:
        return ()
    numbers = [int(of[1]) for name in captured if (of := re.fullmatch(r"PROCESS_0:ARGUMENT_(\d{1,6})", name))]
    return (
        program[0],
        *(
            captured[f"PROCESS_0:ARGUMENT_{number}"][0]
            for number in sorted(numbers)[:_MOST_ARGUMENTS]
            if f"PROCESS_0:ARGUMENT_{number}" in captured
        ),
    )


def _add_warnings(making: Making, file: Tables) -> None:
    rows = file.read("DIAGNOSTIC_EVENT", {"severity": INT, "text": TEXT}).drop_nulls()
    serious = rows.filter(pl.col("severity").is_in([_WARNING, _ERROR]))["text"].unique(maintain_order=True).to_list()
    for text in serious[:_MOST_NOTES]:
        making.note(f"nsys: {' '.join(text.split())[:_LONGEST_NOTE]}")
    if len(serious) > _MOST_NOTES:
        making.note(f"nsys: {len(serious) - _MOST_NOTES:,} more warnings and errors")
