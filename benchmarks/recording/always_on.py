"""The cost of `aiflame agent` for a machine, the size of its store, and the time until a range of an hour is open.

    python benchmarks/recording/always_on.py [--seconds 300] [--output benchmarks/results/recording/always_on.json]

Cost: 8 busy and 32 idle Python programs run under an agent with its usual budget of 1%, and 200 programs that live for three seconds come
and go in a minute meanwhile; the processor time of the agent and of all its children is counted by the kernel, the part of the
programs is the agent's own estimate. The first windows are dear, since names of libraries are looked up and kept.

Store: hours of 32 processes, each with a window of 10 s every 5 minutes and 300 stacks in it, of 1,000 that a process has, up to 30
functions deep; a day is 24 of them. Opening: the processor time and the time of `aiflame top` for such an hour, which no command has
opened yet, and of `aiflame top` for the same hour again, most of which is its start.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Host
from aiflame.profile.schema.kinds import Kind
from aiflame.store.layout import hour_of, make_store
from aiflame.store.listing import listed
from aiflame.store.numbers import number_of, stack_number
from aiflame.store.tables import COLUMNS, Tables, empty, write
from aiflame.version import VERSION

RESULTS = Path(__file__).parents[1] / "results" / "recording" / "always_on.json"
BUSY, IDLE, SHORT = 8, 32, 200
WORK = (
    "import json, re, sys\n"
    "text = json.dumps({str(number): [number] * 9 for number in range(400)})\n"
    "while True:\n"
    "    data = json.loads(text); json.dumps(data, indent=1); re.sub(r'\\d+', lambda found: found[0] * 2, text)\n"
)
SLEEP = "import time; time.sleep(1e6)"
LIVE = "import time; until = time.monotonic() + 3\nwhile time.monotonic() < until: time.sleep(0.01)"
PROCESSES, WINDOWS, VALUES, STACKS, DEEP = 32, 12, 300, 1000, 30
HOURS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder)
        machine = {"version": VERSION, "cpu": Host.here().cpu, "cores": os.cpu_count()}
        result = {"machine": machine, "load_average_before": os.getloadavg()[0], "cost": cost(folder, options.seconds)}
        result["store"] = day(folder)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def cost(folder: Path, seconds: int) -> dict[str, object]:
    marker, store = folder.name, folder / "live"
    programs = [
        subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", text, marker])
        for text, count in ((WORK, BUSY), (SLEEP, IDLE))
        for _ in range(count)
    ]
    options = ("--store", str(store), "--command", re.escape(marker), "--write-every", "2m")
    agent = subprocess.Popen([sys.executable, "-m", "aiflame.cli.main", "agent", *options], stderr=subprocess.PIPE, text=True)
    short: list[subprocess.Popen[bytes]] = []
    began = time.monotonic()
    try:
        while (now := time.monotonic() - began) < seconds:
            if len(short) < SHORT and now > len(short) * 60 / SHORT:
                short.append(subprocess.Popen([sys.executable, "-S", "-c", LIVE, marker]))
            time.sleep(0.05)
        harmed = sum(one.wait() != 0 for one in short)
        alive = sum(one.poll() is None for one in programs)
        agent.send_signal(signal.SIGTERM)
        assert agent.stderr is not None
        said = agent.stderr.read()
        _, status, used = os.wait4(agent.pid, 0)
        took = time.monotonic() - began
    finally:
        for one in programs:
            one.kill()
    counted = {name: int(count) for count, name in re.findall(r"(\d+) (processes|windows|failed|added)\b", said.replace(",", ""))}
    return {
        "seconds": round(took, 1),
        "agent_status": status,
        "processor_s_of_agent_and_children": round(used.ru_utime + used.ru_stime, 2),
        "processor_s_with_the_programs_part": float(re.findall(r"([\d.]+) s of processor time", said)[0]),
        "share_of_the_machine": round((used.ru_utime + used.ru_stime) / took / (os.cpu_count() or 1), 5),
        "largest_child_mb": round(used.ru_maxrss / 1024),
        "short_programs": len(short),
        "short_programs_harmed": harmed,
        "long_programs_alive": alive,
        **counted,
        "hours": [{"windows": hour.windows, "processes": hour.processes, "bytes": hour.size} for hour in listed(store)],
    }


def day(folder: Path) -> dict[str, object]:
    store = make_store(folder / "day")
    chance = np.random.default_rng(1)
    processes = [_process(chance) for _ in range(PROCESSES)]
    yesterday = int(time.time()) // 86_400 * 86_400 - 86_400
    for hour in range(HOURS):
        write(store, hour_of((yesterday + hour * 3600) * 10**9), _hour(chance, processes, yesterday + hour * 3600))
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(yesterday + 3600))
    return {
        "processes": PROCESSES,
        "windows_of_an_hour": PROCESSES * WINDOWS,
        "rows_of_an_hour": PROCESSES * WINDOWS * VALUES,
        "megabytes_of_a_day": round(store.size() / HOURS * 24 / 1e6, 1),
        "top_of_an_hour": _opened(store, moment),
        "top_of_it_again": _opened(store, moment),
    }


def _opened(store: Folder, moment: str) -> dict[str, float]:
    command = [sys.executable, "-m", "aiflame.cli.main", "top", f"{store.path}@{moment}"]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    return {"seconds": round(time.monotonic() - began, 2), "processor_s": round(used.ru_utime + used.ru_stime, 2)}


def _process(chance: np.random.Generator) -> tuple[Tables, np.ndarray]:
    """The code of a process: its frames and stacks, and the inner ends of these."""
    functions = [
        (f"function_{one}_of_module_{one % 77}", int(Kind.PYTHON), "", f"/srv/code/package/module_{one % 77}.py", one, one + line)
        for one in range(400)
        for line in (1, 5)
    ]
    frames = [number_of(*row) for row in functions]
    nodes: list[tuple[int, int, int, int]] = []
    ends = []
    for _ in range(STACKS):
        _, _, depth, _ = begin = nodes[chance.integers(len(nodes))] if nodes else (0, 0, 0, 0)
        node = begin[0] if depth < DEEP else 0
        depth = depth if depth < DEEP else 0
        for _ in range(min(DEEP - depth, int(chance.integers(1, 6)))):
            depth += 1
            frame = frames[chance.integers(len(frames))]
            parent, node = node, stack_number(node, frame)
            nodes.append((node, parent, depth, frame))
        ends.append(node)
    tables = empty()
    tables["frames"] = pl.DataFrame(
        [(one, *row) for one, row in zip(frames, functions, strict=True)], dict(COLUMNS["frames"]), orient="row"
    )
    tables["stacks"] = pl.DataFrame(nodes, dict(COLUMNS["stacks"]), orient="row")
    return tables, np.array(ends, dtype=np.uint64)


def _hour(chance: np.random.Generator, processes: list[tuple[Tables, np.ndarray]], begin_s: int) -> Tables:
    windows, seen, values = [], [], []
    for number, (_, ends) in enumerate(processes):
        process, pid, command = number_of("bench", number), 1000 + number, f"python -m service_{number % 5} --port {8000 + number}"
        for one in range(WINDOWS):
            begin = (begin_s + one * 300) * 10**9 + int(chance.integers(10**9))
            window = number_of(process, begin)
            windows.append(
                (window, process, begin, 10**10 + int(chance.integers(10**8)), pid, command, "me", "/a/b", -1, "0123456789ab", "")
            )
            rows = {
                "window": pl.Series([window], dtype=pl.UInt64).new_from_index(0, VALUES),
                "thread": pl.Series(["main thread", "worker 1", "worker 2"]).gather(chance.integers(0, 3, VALUES)),
                "stack": pl.Series(chance.choice(ends, VALUES, replace=False)),
                "value": pl.Series(20_408_163 * np.minimum(chance.exponential(1.5, VALUES).astype(np.int64) + 1, 40)),
            }
            values.append(pl.DataFrame(rows))
        seen.append((process, pid, *[begin_s * 10**9] * 2, (begin_s + 3600) * 10**9, command, "/a/b", -1, 5 * 10**9, WINDOWS, ""))
    texts = [pl.lit(text).alias(name) for name, text in (("phase", ""), ("layer", ""), ("op", ""), ("metric", "cpu-time"), ("unit", "ns"))]
    tables = empty() | {"values": pl.concat(values).with_columns(texts).sort("window", "thread", "stack")}
    tables["windows"] = pl.DataFrame(windows, dict(COLUMNS["windows"]), orient="row")
    tables["processes"] = pl.DataFrame(seen, dict(COLUMNS["processes"]), orient="row")
    for name in ("stacks", "frames"):
        tables[name] = pl.concat([own[name] for own, _ in processes]).unique(name[:-1])
    tables["stacks"] = tables["stacks"].sort("depth", "parent")
    return tables


if __name__ == "__main__":
    main()
