"""aiflame beside torch.profiler and Proton, each in a process of its own, on the launch-bound and the GPU-bound step.

    python benchmarks/gpu/gpu_peers.py --output peers.json

A peer starts inside the warmed program, as its users do it: `ms_before` is the step without it, `ms` with it, in one process. aiflame
records a process from outside; its ratio is to the mean of a run alone before and one after it. `finish_seconds` is the time that
the peer takes to end, `bytes` the size of its files.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from gpu_common import Report, parse, recorded, run, scratch

PEERS = ("torch.profiler", "torch.profiler with stacks", "Proton", "Proton with Python context", "Proton with PC sampling")


def main() -> None:
    options = parse(__doc__, ("launch", "gpu"))
    report = Report(options.output)
    peers: dict[str, object] = {}
    with scratch() as folder:
        before = run(options.program(*options.workloads))
        ours = run(recorded(options.program(*options.workloads), folder / "p.aiflame", "--no-seal"))
        after = run(options.program(*options.workloads))
        for what, finished in (("alone", before), ("aiflame", ours), ("alone again", after)):
            if finished.status:
                report.fail(what, finished)
        peers["alone"] = {
            name: {"ms": result["ms"], "ms_again": after.results.get(name, {}).get("ms")} for name, result in before.results.items()
        }
        peers["aiflame"] = {}
        for name in options.workloads:
            alone = [finished.results[name]["ms"] for finished in (before, after) if name in finished.results]
            if alone and name in ours.results:
                ms = ours.results[name]["ms"]
                peers["aiflame"][name] = {"ms": ms, "ratio": round(ms / (sum(alone) / len(alone)), 4)}  # type: ignore[index]
        report.put("peers", peers)
        for peer in PEERS:
            finished = run([*options.program(*options.workloads, script=Path(__file__)), "--peer", peer, "--folder", str(folder)])
            if finished.status:
                report.fail(peer, finished)
            peers[peer] = {name: _summary(result) for name, result in finished.results.items()}
            report.put("peers", peers)
            print(peer, peers[peer], flush=True)
    report.end()


def _summary(result: dict[str, float]) -> dict[str, object]:
    kept = ("ms", "ms_before", "steps", "finish_seconds", "bytes")
    return {**{key: result[key] for key in kept}, "ratio": round(result["ms"] / result["ms_before"], 4)}


def measure(arguments: list[str]) -> None:
    """The process of one peer."""
    import argparse

    import gpu_workloads as workloads

    parser = argparse.ArgumentParser()
    parser.add_argument("workloads", nargs="+")
    parser.add_argument("--peer", choices=PEERS)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    place = workloads.Place(options.device, options.small)
    for name in options.workloads:
        step = workloads.warmed(name, place)
        before = workloads.summary(name, workloads.timed(step, place, options.seconds / 2))["ms"]
        output = options.folder / f"{options.peer} {name}".replace(" ", "-")
        peer = torch_profiler(options.peer, place.device) if "torch" in options.peer else nullcontext()
        session = proton(options.peer, output) if "Proton" in options.peer else None
        with peer as profiler:
            workloads.timed(step, place, 0, steps=3)  # a profiler's work in its first steps is no cost of later ones
            took = workloads.timed(step, place, options.seconds)
            began = time.perf_counter()
        if session is not None:
            import triton.profiler

            triton.profiler.finalize()
        elif profiler is not None:
            profiler.export_chrome_trace(f"{output}.json")
        finish = time.perf_counter() - began
        size = sum(file.stat().st_size for file in options.folder.glob(f"{output.name}*"))
        workloads.print_result(workloads.summary(name, took, ms_before=before, finish_seconds=round(finish, 2), bytes=size))


def torch_profiler(peer: str, device: str) -> AbstractContextManager[Any]:
    from torch.profiler import ProfilerActivity, profile

    stacks = "stacks" in peer
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    return profile(activities=activities, with_stack=stacks, with_modules=stacks)


def proton(peer: str, output: Path) -> object:
    import triton.profiler

    sampling = {"backend": "cupti", "mode": "pcsampling"} if "sampling" in peer else {}
    return triton.profiler.start(str(output), context="python" if "Python" in peer else "shadow", **sampling)


if __name__ == "__main__":
    measure(sys.argv[1:]) if "--peer" in sys.argv else main()
