"""The memory and CPU time of `aiflame top --by step` for millions of calls of a model, each of which is a step.

    python benchmarks/profiles/many_steps.py [--calls 10000000] [--tables model_calls jit_calls] [--output FILE]

Profiles are made: one thread that decodes, a prompt for each hundred calls (or calls one jitted function), and samples of CPU time, one
for each hundred calls. They are made, and the command runs, in processes of their own; of the latter `ru_maxrss` and CPU time count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/many_steps.json"
TABLES = ("model_calls", "jit_calls")
EACH_NS, CALL_NS = 1_000_000, 800_000
PROMPT_EVERY = SAMPLE_EVERY = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000_000)
    parser.add_argument("--tables", nargs="*", default=TABLES, choices=TABLES)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        made(options.make, options.calls, options.tables[0])
        return
    result: dict[str, Any] = {"calls": options.calls, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "tables": {}}
    for table in options.tables:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "p.aiflame"
            make = [sys.executable, __file__, "--calls", str(options.calls), "--tables", table, "--make", str(path)]
            subprocess.run(make, check=True)
            result["tables"][table] = measured(path)
        print(table, result["tables"][table], flush=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


def made(path: Path, calls: int, table: str) -> None:
    import polars as pl

    sys.path.append(str(ROOT / "tests/unit/builders"))
    from profiles import sealed
    from stories import MAIN, Story

    from aiflame.profile.folder.door import Folder
    from aiflame.profile.tables.index import Index, write_part

    story = Story()
    story.met(1, MAIN, clock=0)
    (sample,) = story.tables.pop("cpu_samples")
    number = pl.int_range(calls, eager=True, dtype=pl.UInt64).alias("begin_ns")
    begin = 1_000_000_000 + number * EACH_NS
    rows = pl.DataFrame([begin, (begin + CALL_NS).alias("end_ns")]).with_columns(**numbered(), thread=u32(1))
    if table == "model_calls":
        tokens = pl.when(pl.Series(number % PROMPT_EVERY == 0)).then(64).otherwise(1).cast(pl.UInt32)
        rows = rows.with_columns(layer=u32(story.layer("model")), sequences=u32(1), tokens=tokens)
    else:
        rows = rows.with_columns(function=pl.lit(7, pl.UInt64))
        story.tables["jit_functions"] = [{"thread": 1, "function": 7, "name": "step", "file": "/app/serve.py", "line": 3}]
    samples = pl.DataFrame([(begin.gather_every(SAMPLE_EVERY) + CALL_NS // 2).alias("time_ns")]).with_columns(
        **numbered(),
        **{name: u32(sample[name]) for name in ("thread", "stack", "period_ns", "sequence")},
        **{name: pl.lit(sample[name], pl.UInt16) for name in ("weight", "autograd")},
        **{name: pl.lit(0, pl.UInt8) for name in ("clock", "state")},
        cpu=pl.lit(0, pl.UInt16),
    )
    sealed(path, None, **{name: rows for name, rows in story.tables.items() if rows}, processes=[{"pid": 4711}])
    folder = Folder.open(path / "tables")
    written = {name: (write_part(folder, name, "00000", large),) for name, large in ((table, rows), ("cpu_samples", samples))}
    index = Index.read(folder)
    assert index is not None
    Index({**index.tables, **written}).write(folder)


def numbered() -> dict[str, Any]:
    import polars as pl

    return {"process": u32(0), "id": pl.int_range(1, pl.len() + 1, dtype=pl.UInt32)}


def u32(value: int) -> Any:
    import polars as pl

    return pl.lit(value, pl.UInt32)


def measured(path: Path) -> dict[str, Any]:
    if (child := os.fork()) == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(sys.executable, [sys.executable, "-m", "aiflame", "top", "--by", "step", "-n", "5", str(path)])
    _, status, used = os.wait4(child, 0)
    assert status == 0
    return {"peak_mb": round(used.ru_maxrss / 1024), "cpu_seconds": round(used.ru_utime + used.ru_stime, 1)}


if __name__ == "__main__":
    main()
