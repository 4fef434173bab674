"""The size of a recorded launch, and the time after it: bytes in the spool and sealed, stopping after a million kernels, sealing, host
memory.

    python benchmarks/gpu/gpu_storage.py --output storage.json

`many` launches a million small kernels, from one place; `decode` launches from hundreds of places, 20 and more Python frames deep.
Stopping is the time from the program's last statement to the end of `aiflame record --no-seal`; the same time of the program alone
stands beside it. Bytes a launch count the launch, its kernel record, and all stacks, code, modules, names and shapes they refer to.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gpu_common import Finished, Options, Report, parse, recorded, run, scratch

from aiflame.profile.schema.all_tables import SPOOL_HEADER
from aiflame.profile.schema.records import layout

COUNTED = ("launches", "kernels", "kernel_shapes", "stacks", "codes", "modules", "jit_methods", "marks", "strings", "graph_nodes")
STEPS = {"many": 1000, "decode": 200}
SEAL = """
import json, resource, sys, time, aiflame
begin = time.perf_counter()
profile = aiflame.open(sys.argv[1])
took = time.perf_counter() - begin
rows = {name: len(profile.table(name)) for name in ("launches", "kernels", "copies", "syncs", "gpu_samples", "stacks")}
begin = time.perf_counter()
nodes = len(profile.tree("gpu-time")) if rows["kernels"] else 0
tree = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
figures = {"seal_and_resolve_s": round(took, 2), "tree_s": round(tree, 2), "nodes": nodes, "peak_kb": peak, "rows": rows}
print(json.dumps({**figures, "notes": profile.store.notes()}))
"""


def main() -> None:
    options = parse(__doc__, STEPS)
    report = Report(options.output)
    with scratch() as folder:
        for name in options.workloads:
            report.put(name, measured(name, options, folder, report))
            print(name, json.dumps(report.values[name]), flush=True)
    report.end()


def measured(name: str, options: Options, folder: Path, report: Report) -> dict[str, object]:
    program = options.program(name, steps=STEPS[name] // (100 if options.small else 1))
    profile = folder / f"{name}.aiflame"
    alone, ours = run(program), run(recorded(program, profile, "--no-seal"))
    for what, finished in ((f"{name} alone", alone), (f"{name} recorded", ours)):
        if finished.status or name not in finished.results:
            report.fail(what, finished)
            return {}
    spool = spool_bytes(profile)
    opened = subprocess.run([sys.executable, "-c", SEAL, str(profile)], capture_output=True, text=True, check=False)
    if opened.returncode:
        report.fail(f"sealing {name}", Finished({}, opened.returncode, 0, 0, opened.stderr))
        return {"spool_bytes": spool}
    sealing = json.loads(opened.stdout.splitlines()[-1])
    launches = max(sealing["rows"]["launches"], 1)
    sealed = {
        table.name: sum(file.stat().st_size for file in table.iterdir()) for table in (profile / "tables").iterdir() if table.is_dir()
    }
    before, after = alone.results[name], ours.results[name]
    return {
        "ms_alone": before["ms"],
        "ms_recorded": after["ms"],
        "ending_s": {"alone": ending(alone, name), "recorded": ending(ours, name)},
        "sealing": sealing,
        "bytes_a_launch": {"spool": a_launch(spool, launches), "sealed": a_launch(sealed, launches)},
        "spool_bytes": spool,
        "sealed_bytes": sealed,
        "program_memory_kb": {
            "peak": {"alone": before["peak_kb"], "recorded": after["peak_kb"], "extra": after["peak_kb"] - before["peak_kb"]},
            "own": {"alone": before["own_kb"], "recorded": after["own_kb"], "extra": after["own_kb"] - before["own_kb"]},
        },
    }


def ending(finished: Finished, name: str) -> float:
    """Seconds from the program's last statement until the program and its recorder were gone."""
    return round((finished.ended_ns - finished.results[name]["last_ns"]) / 1e9, 3)


def a_launch(tables: dict[str, int], launches: int) -> float:
    return round(sum(size for name, size in tables.items() if name in COUNTED) / launches, 1)


def spool_bytes(profile: Path) -> dict[str, int]:
    """Bytes of records in the tables of all processes; files give the rest of their reserved space back at the end."""
    place = {column.name: offset for column, offset in layout(SPOOL_HEADER)[0]}
    sizes: dict[str, int] = {}
    for file in profile.glob("spool/*/*.table"):
        with file.open("rb") as table:
            header = table.read(64)
        record = int.from_bytes(header[place["record_bytes"] :][:4], "little")
        count = int.from_bytes(header[place["next"] :][:8], "little")
        sizes[file.stem] = sizes.get(file.stem, 0) + record * count
    return sizes


if __name__ == "__main__":
    main()
