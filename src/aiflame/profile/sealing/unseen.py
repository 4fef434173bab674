"""Notes on CPU time without samples: processes that used CPU time and have no sample, or hardly any, and processes that were not recorded.

The profile shows none of this time and must say so: otherwise it would look as if it had not been spent.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from aiflame.values import dataclass, field

WORTH_SAYING_NS = 500_000_000
_SLACK = 1.1
"""CPU times reported by processes and by the system differ by the work of the loader before recording begins."""
_UNRECORDED_NS = 5_000_000
"""CPU time of a process before its recording begins and after its last record."""
_LITTLE, _SHORT_NS = 0.2, 50_000_000
"""A process has hardly any samples if they stand for less than this share of its CPU time, minus the ticks that a slow machine may lose."""
_LONGEST_COMMAND = 60
_MOST = 20
"""The most notes on single processes."""


@dataclass(slots=True)
class CpuTime:
    """The CPU time of one process, and the part that has samples. Sealing passes each of its tables to `add`."""

    pid: int = 0
    command: str = ""
    cpu_ns: int = 0
    """as the process reported it; 0: it was killed before"""
    sampled_ns: int = 0
    samples: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        if table == "processes":
            self.pid, self.command = int(frame["pid"][0]), readable(frame["command"][0])
        elif table == "process_ends":
            self.cpu_ns = max(self.cpu_ns, int(frame["cpu_ns"].max() or 0))  # type: ignore[arg-type]
        elif table == "thread_ends":
            self._threads_ns += int(frame["cpu_ns"].sum())
        elif table == "cpu_samples":
            on_cpu = frame.filter(pl.col("clock") == 0)
            self.samples += len(frame)
            self.sampled_ns += int((on_cpu["weight"].cast(pl.Int64) * on_cpu["period_ns"]).sum())
        elif table == "notes":
            self.notes += frame["text"].to_list()

    _threads_ns: int = 0

    @property
    def used_ns(self) -> int:
        return max(self.cpu_ns, self._threads_ns, self.sampled_ns)


def notes_on(processes: Iterable[CpuTime], total_ns: int, cpu_rate: int, stopped: str | None) -> list[str]:
    """A line for each process that used much CPU time and has no sample, and one for time that no recorded process used.

    `total_ns`: CPU time of the command and of all processes that it waited for, from the operating system; 0: unknown. `stopped`: why
    recording ended early.
    """
    if cpu_rate == 0:
        return []
    processes = list(processes)
    silent = [one for one in processes if one.used_ns > WORTH_SAYING_NS and _is_silent(one, stopped)]
    result = [_note(one, stopped) for one in silent[:_MOST]]
    if len(silent) > _MOST:
        result.append(f"{len(silent) - _MOST} more processes used CPU time and have no sample")
    missing = total_ns - int(sum(one.used_ns for one in processes) * _SLACK)
    missing -= len(processes) * _UNRECORDED_NS
    if missing > WORTH_SAYING_NS and stopped is None:
        result.append(_note_on_rest(missing, [one for one in processes if not one.samples and not one.used_ns]))
    return result


def _is_silent(one: CpuTime, stopped: str | None) -> bool:
    """True if the process has no sample, or hardly any (its main thread has none, say). If recording stopped early, few are expected."""
    return not one.samples or (stopped is None and one.sampled_ns < _LITTLE * one.used_ns - _SHORT_NS)


def _note(one: CpuTime, stopped: str | None) -> str:
    why = stopped or "; ".join(dict.fromkeys(one.notes)) or "none came, and nothing says why (are its signals or timers blocked?)"
    has = f"samples for {one.sampled_ns / 1e9:.2f} s alone" if one.samples else "no sample"
    return f"process {one.pid} ({one.command}) used {one.used_ns / 1e9:.1f} s of CPU time and has {has}: {why}"


def _note_on_rest(missing_ns: int, killed: list[CpuTime]) -> str:
    """Killed processes do not report their CPU time."""
    much = f"{missing_ns / 1e9:.1f} s of CPU time"
    if killed:
        named = ", ".join(f"{one.pid} ({one.command})" for one in killed[:3]) + (" …" if len(killed) > 3 else "")
        why = (
            "; ".join(dict.fromkeys(text for one in killed for text in one.notes))
            or "it was killed before a sample came, put memory of its own in place of the recorder's, or could not be sampled"
        )
        return f"{much} have no sample; process {named} has none and did not report its CPU time: {why}"
    return (
        f"{much} were used by processes that aiflame could not record: statically linked or set-user-id programs, or programs started"
        " without our LD_PRELOAD"
    )


def readable(command: str) -> str:
    text = " ".join(command.replace("\0", " ").split())
    return text if len(text) <= _LONGEST_COMMAND else text[: _LONGEST_COMMAND - 1] + "…"
