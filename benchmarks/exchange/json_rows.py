"""Reading a trace as torch.profiler writes it into twelve columns: CPU time and memory; beside json, orjson, msgspec and simdjson.

    python benchmarks/exchange/json_rows.py [--megabytes 200] [--peer-megabytes 200] [--output FILE]

Each reader runs in a process of its own on a made-up trace, and the memory is the most that the process had.
json, orjson and simdjson parse the document and make no columns; msgspec makes objects with nothing but the keys that are wanted.
A peer that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "exchange" / "json_rows.json"
OURS = """
from aiflame.exchange.readers.json_rows import JsonRows, Key, Kind
rows = JsonRows([
    Key("ph", Kind.TEXT), Key("cat", Kind.TEXT), Key("name", Kind.TEXT), Key("pid", Kind.TEXT), Key("tid", Kind.TEXT),
    Key("ts", Kind.DECIMAL, 3), Key("dur", Kind.DECIMAL, 3), Key("id", Kind.INT),
    Key("args.External id", Kind.INT), Key("args.correlation", Kind.INT), Key("args.stream", Kind.INT), Key("args.grid", Kind.RAW),
])
count = 0
with open(sys.argv[1], "rb") as file:
    while block := file.read(16 << 20):
        count += rows.feed(block).rows
count += rows.finish().rows
texts = rows.texts()
assert rows.summary().damaged_places == 0
"""
MSGSPEC = """
import msgspec
fields = [("stream", int, 0), ("correlation", int, 0), ("grid", msgspec.Raw, b"")]
Args = msgspec.defstruct("Args", [("external", int, 0), *fields], rename={"external": "External id"}, gc=False)
Event = msgspec.defstruct("Event", [
    ("ph", str, ""), ("cat", str, ""), ("name", str, ""), ("pid", int | str, 0), ("tid", int | str, 0),
    ("ts", float, 0.0), ("dur", float, 0.0), ("id", int, 0), ("args", Args | None, None),
], gc=False)
Trace = msgspec.defstruct("Trace", [("traceEvents", list[Event])])
count = len(msgspec.json.decode(open(sys.argv[1], "rb").read(), type=Trace).traceEvents)
"""
PEERS = {
    "json": "import json\ncount = len(json.load(open(sys.argv[1], 'rb'))['traceEvents'])",
    "orjson": "import orjson\ncount = len(orjson.loads(open(sys.argv[1], 'rb').read())['traceEvents'])",
    "msgspec": MSGSPEC,
    "simdjson": "import simdjson\ncount = len(simdjson.Parser().parse(open(sys.argv[1], 'rb').read())['traceEvents'])",
}
MEASURE = """
import sys, time, resource
begin = time.process_time()
{}
took = time.process_time() - begin
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, count)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--peer-megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in options.megabytes:
            trace = Path(folder) / f"{megabytes}.json"
            write(trace, megabytes * 1_000_000)
            readers = {"aiflame": OURS} | (PEERS if megabytes <= options.peer_megabytes else {})
            for name, code in readers.items():
                if best := fastest(code, trace, options.runs):
                    results.append({"reader": name, "megabytes": megabytes, **best})
                    print(json.dumps(results[-1]), flush=True)
            trace.unlink()
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    options.output.write_text(json.dumps({"machine": machine, "readers": results}, indent=1) + "\n")
    return 0


def fastest(code: str, trace: Path, runs: int) -> dict[str, Any]:
    """The run with the least CPU time, imports included; nothing where the reader is not installed."""
    measured = []
    for _ in range(runs):
        command = [sys.executable, "-c", MEASURE.format(code), str(trace)]
        begin = time.perf_counter()
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            print(ended.stderr.strip().rpartition("\n")[2], file=sys.stderr)
            return {}
        cpu, kilobytes, events = ended.stdout.split()
        measured.append((float(cpu), time.perf_counter() - begin, int(kilobytes), int(events)))
    seconds, by_the_clock, peak, count = min(measured)
    return {
        "cpu_seconds": round(seconds, 2),
        "seconds": round(by_the_clock, 2),
        "mb_per_cpu_second": round(trace.stat().st_size / seconds / 1e6),
        "peak_mb": peak // 1024,
        "events": count,
    }


def write(path: Path, size: int) -> None:
    """The same thousand ops and kernels again and again, at times of their own."""
    chance = random.Random(1)
    ops = [f"aten::{''.join(chance.choices('abcdefghij_', k=12))}" for _ in range(300)]
    kernels = [
        f"void at::native::kernel_{n}<{', '.join(chance.choices(('float', 'long', 'c10::BFloat16'), k=9))}>(int)" for n in range(700)
    ]
    with path.open("w") as file:
        file.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    {"id": 0, "name": "NVIDIA H200"}\n  ],\n  "traceEvents": [\n')
        number = 0
        while file.tell() < size:
            file.write("".join(launch(number + each, chance.choice(ops), chance.choice(kernels)) for each in range(1000)))
            number += 1000
        file.write('  {\n    "name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 1732650000123456.789\n  }\n')
        file.write('  ],\n  "traceName": "trace.json"\n}\n')


def launch(number: int, op: str, kernel: str) -> str:
    """An op, its call of the runtime, its kernel and the arrow between them."""
    return ",\n".join([*events(number, op, kernel), ""])


def events(number: int, op: str, kernel: str) -> Iterator[str]:
    times = [f'"ts": {1732650000000000 + number * 20 + shift}.{number % 1000:03}' for shift in range(4)]
    host, device = '"pid": 4321, "tid": 4321', '"pid": 0, "tid": 7'
    on_device = (
        f'"External id": {number}, "queued": 0, "device": 0, "context": 1,\n      "stream": 7, "correlation": {number},\n'
        '      "registers per thread": 32,\n      "shared memory": 0,\n      "blocks per SM": 0.25,\n      "warps per SM": 2,\n'
        f'      "grid": [{number % 64}, 1, 1],\n      "block": [256, 1, 1],\n      "est. achieved occupancy %": 15'
    )
    yield span(
        "cpu_op",
        op,
        f'{host},\n    {times[0]}, "dur": 9.{number % 997:03}',
        f'"External id": {number},"Record function id": 0, "Ev Idx": 1',
    )
    yield span(
        "cuda_runtime", "cudaLaunchKernel", f'{host},\n    {times[1]}, "dur": 3.5', f'"External id": {number}, "correlation": {number}'
    )
    yield f'  {{\n    "ph": "s", "id": {number}, {host}, {times[1]},\n    "cat": "ac2g", "name": "ac2g"\n  }}'
    yield span("kernel", kernel, f'{device},\n    {times[3]}, "dur": 7.{number % 991:03}', on_device)
    yield f'  {{\n    "ph": "f", "id": {number}, {device}, {times[3]},\n    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }}'


def span(category: str, name: str, where: str, arguments: str) -> str:
    return f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", {where},\n    "args": {{\n      {arguments}\n    }}\n  }}'


if __name__ == "__main__":
    raise SystemExit(main())
