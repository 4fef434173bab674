"""How long large traces of torch.profiler take to import, and how much memory: `import_scale.py [--peers PYTHON] [--result FILE] EVENTS …`.

For each number of events, writes a trace of a training step that repeats, as Kineto lays it out, and imports it in a process of its own.
With `--peers`, an interpreter that has HolisticTraceAnalysis and TraceLens, these read the same file one after another: HTA parses it to a
frame, TraceLens builds its tree of calls (without Python functions). A peer gets 18 GB of address space and 15 minutes. Prints a row of
JSON each, with seconds of the clock and of CPU and the peak of memory. `json_rows.py` measures parsers of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from aiflame.profile.folder.meta import Host

LAYERS, OPS = 12, 5
NAMES = ("aten::linear", "aten::addmm", "aten::layer_norm", "aten::gelu", "aten::add")
KERNELS = tuple(f"void at::native::vectorized_elementwise_kernel<4, at::native::Functor{at}<float>, 2>(int, float*)" for at in range(40))
PEERS = {
    "HTA": "from hta.common.trace_parser import parse_trace_dataframe; from hta.configs.parser_config import ParserConfig;"
    " parse_trace_dataframe(FILE, ParserConfig.get_default_cfg())",
    "TraceLens": "from TraceLens.TreePerf import TreePerfAnalyzer; TreePerfAnalyzer.from_file(FILE)",
}
OURS = "from pathlib import Path; from aiflame.exchange.readers.door import import_to; import_to(Path(FILE), Path(FILE + '.aiflame'))"
VERSIONS = "import importlib.metadata as of; print(of.version('HolisticTraceAnalysis'), of.version('TraceLens'))"
MOST_BYTES, LONGEST_S = 18_000 << 20, 900
"""Of a peer."""


def write(path: Path, events: int) -> int:
    """Writes at least so many events; returns their number."""
    base, written, correlation, sequence, at = 1_790_000_000_000_000_000, 0, 1, 1, 1_000_000
    with path.open("w") as file:
        file.write(
            '{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85000000000}],\n'
            f'  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {base},\n  "traceEvents": [\n'
        )
        step = 0
        while written < events:
            begin, rows = at, []
            for layer in range(LAYERS):
                layer_begin = at
                for number in range(OPS):
                    rows.append(_python(f"torch/nn/modules/linear.py({110 + number}): forward", at, 60_000, correlation))
                    rows.append(_op(NAMES[number], at + 2_000, 50_000, correlation, sequence, [4096, 1024]))
                    rows.append(_runtime("cudaLaunchKernel", at + 20_000, 6_000, correlation))
                    rows.append(_kernel(KERNELS[(layer * OPS + number) % len(KERNELS)], at + 40_000, 55_000, correlation))
                    rows.append(_flow("s", at + 20_000, correlation, 4242))
                    rows.append(_flow("f", at + 40_000, correlation, 0))
                    correlation, sequence, at = correlation + 1, sequence + 1, at + 60_500
                rows.append(_python(f"nn.Module: Block_{layer}", layer_begin - 200, at - layer_begin + 200, 0))
                at += 1_000
            rows.append(_annotation(f"ProfilerStep#{step}", begin - 500, at - begin + 600))
            file.write("".join(rows))
            written += len(rows)
            step, at = step + 1, at + 20_000
        file.write('  {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1.000}\n  ]\n}\n')
    return written


def _times(begin: int, took: int) -> str:
    return f'"ts": {begin // 1000}.{begin % 1000:03}, "dur": {took // 1000}.{took % 1000:03}'


def _python(name: str, begin: int, took: int, number: int) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "python_function", "name": "{name}", "pid": 4242, "tid": 4242,\n    {_times(begin, took)},\n'
        f'    "args": {{\n      "Python parent id": {number}, "Python id": {number + 1}, "Ev Idx": {number}\n    }}\n  }},\n'
    )


def _op(name: str, begin: int, took: int, number: int, sequence: int, dims: list[int]) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 4242, "tid": 4242,\n    {_times(begin, took)},\n'
        f'    "args": {{\n      "External id": {number}, "Sequence number": {sequence}, "Fwd thread id": 0, "Record function id": 0,'
        f' "Input Dims": [{dims}], "Ev Idx": {number}\n    }}\n  }},\n'
    )


def _runtime(name: str, begin: int, took: int, number: int) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "{name}", "pid": 4242, "tid": 4242,\n    {_times(begin, took)},\n'
        f'    "args": {{\n      "External id": {number}, "cbid": 211, "correlation": {number}\n    }}\n  }},\n'
    )


def _kernel(name: str, begin: int, took: int, number: int) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7,\n    {_times(begin, took)},\n'
        f'    "args": {{\n      "External id": {number}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {number},\n'
        '      "registers per thread": 32, "shared memory": 0, "blocks per SM": 6.5, "warps per SM": 26.0,\n'
        '      "grid": [702, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 41\n    }\n  },\n'
    )


def _flow(phase: str, at: int, number: int, pid: int) -> str:
    end = ', "bp": "e"' if phase == "f" else ""
    return (
        f'  {{\n    "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {pid or 7}, "ts": {at // 1000}.{at % 1000:03}, "cat": "ac2g",'
        f' "name": "ac2g"{end}\n  }},\n'
    )


def _annotation(name: str, begin: int, took: int) -> str:
    return f'  {{\n    "ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 4242, "tid": 4242,\n    {_times(begin, took)}\n  }},\n'


def measure(python: str, code: str, file: Path, limited: bool) -> dict[str, object]:
    """Seconds of the clock and of CPU, and memory in MB, of a process of its own."""
    began = time.monotonic()
    begin = partial(resource.setrlimit, resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES)) if limited else None
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen([python, "-c", f"FILE = {str(file)!r}; {code}"], preexec_fn=begin, stdout=said, stderr=said)
        signal.signal(signal.SIGALRM, lambda *_: child.kill())
        signal.alarm(LONGEST_S if limited else 0)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - began
        signal.alarm(0)
        said.seek(0)
        last = (said.read().splitlines() or [""])[-1]
    figures: dict[str, object] = {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "memory_mb": round(usage.ru_maxrss / 1024),
    }
    if status:
        figures["failed"] = f"killed after {LONGEST_S} s" if limited and seconds >= LONGEST_S else last[:200] or f"status {status}"
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("events", type=int, nargs="+")
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--result", type=Path)
    asked = parser.parse_args()
    rows = []
    for wanted in asked.events:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/tmp")) as folder:
            file = Path(folder) / "trace.json"
            events = write(file, wanted)
            for name, code in {"aiflame": OURS, **(PEERS if asked.peers else {})}.items():
                ours = name == "aiflame"
                load = round(os.getloadavg()[0], 1)
                figures = measure(sys.executable if ours else asked.peers, code, file, limited=not ours)
                rows.append({"events": events, "file_mb": file.stat().st_size >> 20, "tool": name, **figures, "load_before": load})
                print(json.dumps(rows[-1]), flush=True)
    if asked.result:
        versions = (
            subprocess.run([asked.peers, "-c", VERSIONS], capture_output=True, text=True, check=True).stdout.split() if asked.peers else []
        )
        host = Host.here()
        machine = {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel, "python": host.python}
        peers = dict(zip(PEERS, versions, strict=False))
        asked.result.write_text(json.dumps({"machine": machine, "peers": peers, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
