"""The cost of `aiflame timeline` as profiles grow: time, memory, size of the trace; beside the builders of the Python package perfetto.

    python benchmarks/profiles/timeline.py [--kernels 100000 1000000 10000000] [--output FILE]

Each size runs in a process of its own, on a made-up profile (`synthetic_profile.py`): time and peak memory are those of the whole command.
The peer writes slices, arrows and facts alone, and has nothing to find out before; it is left out where the package is not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from synthetic_profile import write
from synthetic_run import Size

RESULTS = Path(__file__).parents[1] / "results" / "timeline.json"
COMMAND = [sys.executable, "-m", "aiflame", "timeline"]
PEER = """
import sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
trace = Trace()
for kernel in range(int(sys.argv[1])):
    for kind, name in ((1, 1), (1, 2)):  # its call and itself
        packet = trace.packet.add(timestamp=10**12 + kernel * 5000 + name * 1000, trusted_packet_sequence_id=1)
        event = packet.track_event
        event.type, event.track_uuid, event.name_iid = kind, name, name
        (event.flow_ids if name == 1 else event.terminating_flow_ids).append(kernel + 1)
        for key in range(3 if name == 1 else 10):
            event.debug_annotations.add(name_iid=key + 1, string_value_iid=kernel % 97 + 1)
        packet = trace.packet.add(timestamp=10**12 + kernel * 5000 + name * 1000 + 900, trusted_packet_sequence_id=1)
        packet.track_event.type, packet.track_event.track_uuid = 2, name
with open(sys.argv[2], "wb") as file:
    file.write(trace.SerializeToString())
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--peer-kernels", type=int, default=100_000)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "t.pftrace"
        for kernels in options.kernels:
            profile = Path(folder) / "p.aiflame"
            write(profile, Size(kernels, stacks=min(20_000, max(2000, kernels // 500))))
            runs.append({"kernels": kernels, **measured([*COMMAND, str(profile), "-o", str(trace)], trace)})
            print(json.dumps(runs[-1]), flush=True)
        peer = measured([sys.executable, "-c", PEER, str(options.peer_kernels), str(trace)], trace)
        if peer:
            peer = {"kernels": options.peer_kernels, **peer}
        print("peer", json.dumps(peer))
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    options.output.write_text(json.dumps({"machine": machine, "timeline": runs, "perfetto builders": peer}, indent=1) + "\n")
    return 0


def measured(command: list[str], trace: Path) -> dict[str, Any]:
    """Seconds, peak memory and the size of the written file; nothing where the command fails."""
    begin = time.perf_counter()
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert running.stderr is not None
    printed = running.stderr.read().decode()
    _, status, used = os.wait4(running.pid, 0)
    took = time.perf_counter() - begin
    if status:
        print(printed.strip().rpartition("\n")[2], file=sys.stderr)
        return {}
    return {
        "seconds": round(took, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_mb": used.ru_maxrss // 1024,
        "trace_mb": round(trace.stat().st_size / 1e6, 2),
        "slices": int(re.sub(r"\D", "", printed.partition(" slices")[0]) or 0),
    }


if __name__ == "__main__":
    sys.exit(main())
