"""The shares of the server in `programs.py` by its thread's own clock, and by aiflame, of the same process.

    python benchmarks/cpu/own_clock.py --python PYTHON [--units 60] [--output benchmarks/results/cpu_peers.json]

PYTHON as for `peers.py`. Wrappers read the clock of the server's thread around five functions. The cost of a reading is measured, and
subtracted from both: aiflame's samples name the wrappers. The server is recorded with a real-time priority,
so that no other program takes its processor away (root only), and beside four programs that compute, at several rates, and with requests
that come at random moments.
"""

from __future__ import annotations

import argparse
import asyncio.selector_events
import builtins
import json
import os
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import programs

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks/results/cpu_peers.json"
ALONE, BESIDE = ["chrt", "-f", "10"], 4
"""In front of the command; busy programs beside it."""
BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
SETTINGS: list[dict[str, Any]] = [
    {"priority": True, "rate": 199, "jitter_ms": 0},
    {"priority": True, "rate": 999, "jitter_ms": 0},
    {"priority": True, "rate": 199, "jitter_ms": 2},
    {"priority": False, "rate": 97, "jitter_ms": 0},
    {"priority": False, "rate": 199, "jitter_ms": 0},
    {"priority": False, "rate": 999, "jitter_ms": 0},
    {"priority": False, "rate": 199, "jitter_ms": 2},
]
WRAPPER = """
def clocked_{name}(*values, **named):
    begun = clock()
    try:
        return function(*values, **named)
    finally:
        sums[0] += clock() - begun
        sums[1] += 1
"""
CLOCK = time.thread_time_ns
PREFIX = "clocked_"
WRAPPED = ("sorted", "data_received", "write", "dumps", "select")
SERVER, OWN, OUTSIDE = "server", "the wrappers' own", "outside"
CALLS = ("_PyEval_Vector", "_PyFunction_Vectorcall", "_PyObject_Call")
"""By which CPython's evaluator enters the function; the wrapper's other calls read the clock."""

took: dict[str, list[int]] = {}
"""Nanoseconds and calls."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--units", type=int, default=60, help="thousands of requests")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--serve", action="store_true", help="be the server")
    options = parser.parse_args()
    if options.serve:
        serve(options.units)
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    from aiflame.profile.folder.meta import Host

    result = json.loads(options.output.read_text()) if options.output.exists() else {}
    runs: list[object] = []
    of_server = {"machine": asdict(Host.here()) | {"name": "", "boot_id": ""}, "units": options.units, "runs": runs}
    result.setdefault("programs", {}).setdefault("uvicorn", {})["own_clock"] = of_server
    for setting in SETTINGS:
        runs.append(compared(options.python, options.units, **setting))
        options.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def compared(python: str, units: int, *, priority: bool, rate: int, jitter_ms: int) -> dict[str, object]:
    import aiflame

    record = [sys.executable, "-m", "aiflame", "record", "--force", "-q", "--no-children", "--cpu-rate", str(rate)]
    with tempfile.TemporaryDirectory() as folder, busy(0 if priority else BESIDE):
        profile = Path(folder) / "server.aiflame"
        command = [*record, "-o", str(profile), "--", python, __file__, "--serve", "--units", str(units)]
        load = os.getloadavg()[0]
        ended = subprocess.run(
            [*(ALONE if priority else []), *command], check=True, capture_output=True, env=os.environ | {"JITTER_MS": str(jitter_ms)}
        )
        clock = json.loads(ended.stdout)
        sampled, seconds = of_profile(aiflame.open(profile))
    samples = round(seconds * min(rate, 250))
    rows = {
        name: {"clock": round(part, 2), "aiflame": round(sampled[name], 2), "error": round((part * (100 - part) / samples) ** 0.5, 2)}
        for name, part in clock["percent"].items()
    }
    setting = {
        "priority": priority,
        "beside": 0 if priority else BESIDE,
        "rate": rate,
        "jitter_ms": jitter_ms,
        "load_before": round(load, 1),
    }
    run = {**setting, **{name: clock[name] for name in ("thread_s", "rusage_s")}, "aiflame_s": round(seconds, 2), "percent": rows}
    print(json.dumps(run), flush=True)
    return run


@contextmanager
def busy(count: int) -> Iterator[None]:
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def of_profile(profile: Any) -> tuple[dict[str, float], float]:
    """Percent of the server's time without the wrappers' own, for each wrapped function; and all seconds."""
    tree = profile.tree("cpu-time", "code", "function")
    every_name = tree.frames["name"].to_list()
    wrapper: list[str] = []  # of each node, whose call it is in; OWN: the wrapper's own work
    parts: dict[str, int] = defaultdict(int)
    for parent, frame, value in zip(tree.parent.tolist(), tree.frame.tolist(), tree.values["cpu-time"].tolist(), strict=True):
        name, above = every_name[frame], wrapper[parent] if parent >= 0 else OUTSIDE
        of = name.removeprefix(PREFIX) if name.startswith(PREFIX) else ""
        if of in (SERVER, *WRAPPED):
            here = of
        elif parent >= 0 and every_name[tree.frame[parent]].startswith(PREFIX) and name not in CALLS:
            here = OWN
        else:
            here = above
        wrapper.append(here)
        parts[OWN if of in WRAPPED else here] += value
    whole = sum(value for name, value in parts.items() if name != OUTSIDE)
    return {name: 100 * parts[name] / (whole - parts[OWN]) for name in WRAPPED}, whole / 1e9


def serve(units: int) -> None:
    from uvicorn.protocols.http import h11_impl  # before the clock is read

    transport: Any = asyncio.selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    transport.write = wrapped("write", transport.write)
    selectors.EpollSelector.select = wrapped("select", selectors.EpollSelector.select)  # type: ignore[method-assign]
    h11_impl.H11Protocol.data_received = wrapped("data_received", h11_impl.H11Protocol.data_received)
    programs.sorted = wrapped("sorted", builtins.sorted)  # type: ignore[attr-defined]
    vars(programs)["json"] = SimpleNamespace(dumps=wrapped("dumps", json.dumps))
    before, begun = resource.getrusage(resource.RUSAGE_THREAD), CLOCK()
    wrapped(SERVER, programs.uvicorn)(units)
    total, after = CLOCK() - begun, resource.getrusage(resource.RUSAGE_THREAD)
    took.pop(SERVER)
    inside, all_of_it = cost_of_a_wrapper()
    whole = total - all_of_it * sum(calls for _, calls in took.values())
    percent = {name: 100 * (spent - inside * calls) / whole for name, (spent, calls) in took.items()}
    rusage = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"thread_s": round(total / 1e9, 2), "rusage_s": round(rusage, 2), "percent": percent}))


def wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Each has code of its own, by whose name its samples are counted."""
    namespace: dict[str, Any] = {"clock": CLOCK, "function": function, "sums": took.setdefault(name, [0, 0])}
    exec(compile(WRAPPER.format(name=name), f"<{name}>", "exec"), namespace)
    wrapper: Callable[..., Any] = namespace[PREFIX + name]
    return wrapper


def cost_of_a_wrapper(calls: int = 100_000) -> tuple[float, float]:
    """Nanoseconds that it adds to the function, and to all."""

    def nothing() -> None:
        pass

    call = wrapped("nothing", nothing)
    begun = CLOCK()
    for _ in range(calls):
        nothing()
    bare = CLOCK() - begun
    begun = CLOCK()
    for _ in range(calls):
        call()
    with_it = CLOCK() - begun
    spent, _ = took.pop("nothing")
    return (spent - bare) / calls, (with_it - bare) / calls


if __name__ == "__main__":
    main()
