"""How `aiflame ranks` scales: made-up ranks of a training, each with 100,000 kernels, and one that sleeps 20 ms in layer 2's backward.

    python benchmarks/profiles/ranks.py --ranks 64 256 1024 [--kernels 100000] [--memory 2G] [--dask] [--folder FOLDER] [-o OUT.json]

For each number of ranks: seconds, and the most memory that all processes held at once (PSS: shared memory counts once), looked at every
50 ms. With --dask the same on a local cluster of as many processes as there are CPUs, and whether the results are equal. All ranks but the
one that sleeps are copies of a few variants, whose files they share as hard links: disks stay small, and each rank still reads whole files.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from synthetic_program import Program, program
from synthetic_run import AUTOGRAD, BEGIN_NS, Size, StepTemplate, TrainingRun, step_template
from synthetic_tables import Tables

from aiflame.analyze.ranks import fan_out
from aiflame.analyze.ranks.comparison import Ranks, ranks, to_json
from aiflame.analyze.ranks.sources import sources
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Host, Meta
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.enums import CallBackend, CallKind
from aiflame.profile.spool.process_spool import empty_frame
from aiflame.profile.tables.index import Index, write_part
from aiflame.recorder.options import parse_size

VARIANTS = 8
SLEEP_NS = 20_000_000
SLEEPS_IN = 2
"""Layer."""
NOISE = 0.01
"""By so much, and so much less, kernels of other ranks take."""
ALL_REDUCE_NS = 90_000
BYTES = 25 << 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[16])
    parser.add_argument("--kernels", type=int, default=100_000)
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--folder", type=Path, help="where profiles are made and kept (default: a temporary folder)")
    parser.add_argument("-o", "--out", type=Path)
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="aiflame-ranks-"))
    try:
        measured = [_measured(folder, many, chosen.kernels, parse_size(chosen.memory), chosen.dask) for many in sorted(chosen.ranks)]
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    whole = {"machine": platform.node(), "cpus": os.cpu_count(), "python": platform.python_version(), "kernels": chosen.kernels}
    text = json.dumps(whole | {"memory_bound": chosen.memory, "results": measured}, indent=1)
    if chosen.out:
        chosen.out.write_text(text + "\n")
    print(text)
    return 0


def _measured(folder: Path, many: int, kernels: int, memory: int, dask: bool) -> dict[str, Any]:
    path = folder / f"{many}x{kernels}.aiflame"
    began = time.perf_counter()
    if not path.exists():
        write(path, many, kernels)
    writing_s = time.perf_counter() - began
    files, _ = sources([path])
    spent = _processor()
    partial, took, most = _watched(lambda: fan_out.here(files, memory))
    spent = _processor() - spent
    answer, judged, whole = _watched(lambda: ranks(partial))
    _expect(answer, many)
    row = {
        "ranks": many,
        "made_s": round(writing_s, 1),
        "facts_s": round(took, 1),
        "facts_processor_s": round(spent, 1),
        "judged_s": round(judged, 1),
        "s_a_rank": round((took + judged) / many, 3),
        "most_memory_mb": max(most, whole) >> 20,
        "finding": answer.findings[0].sentence,
    }
    if dask:
        row["dask_s"], row["dask_equal"] = _on_dask(files, answer)
    print(json.dumps(row), file=sys.stderr)
    return row


def _on_dask(files: list[Any], here: Ranks) -> tuple[float, bool]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=os.cpu_count(), threads_per_worker=1, dashboard_address=None) as cluster:
        partial, took, _ = _watched(lambda: fan_out.on_dask(files, cluster.scheduler_address))
    return round(took, 1), to_json(ranks(partial), 10_000) == to_json(here, 10_000)


def _expect(answer: Ranks, many: int) -> None:
    """The straggler, and it alone."""
    named = [(one.rank, one.why.phase, one.why.layer.split(".")[:2], one.why.cause.name) for one in answer.stragglers]
    assert len(answer.rows) == many, answer.notes
    assert named == [(straggler(many), "Backward", ["layers", str(SLEEPS_IN)], "WAIT")], named


def straggler(many: int) -> int:
    return many * 2 // 3


def _watched(work: Callable[[], Any]) -> tuple[Any, float, int]:
    """Its result, seconds, and the most bytes that this process and those below it held at once."""
    over = threading.Event()
    most = 0

    def watch() -> None:
        nonlocal most
        while not over.wait(0.05):
            most = max(most, sum(map(_pss, _below(os.getpid()))))

    watching = threading.Thread(target=watch)
    watching.start()
    began = time.perf_counter()
    try:
        return work(), time.perf_counter() - began, most
    finally:
        over.set()
        watching.join()


def _processor() -> float:
    """Seconds of CPUs that this process and its ended children took: by the clock, a machine that is busy otherwise takes longer."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _below(pid: int) -> list[int]:
    children = [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in _text(task).split()]
    return [pid, *(process for child in children for process in _below(child))]


def _text(path: Path) -> str:
    """Empty where its process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _pss(pid: int) -> int:
    rows = _text(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    return next((int(row.split()[1]) << 10 for row in rows if row.startswith("Pss:")), 0)


def write(path: Path, many: int, kernels: int) -> None:
    """A profile with `many` ranks."""
    size, code = Size(kernels), program(24)
    forms = _forms(code, many)
    bases = []
    for number, form in enumerate(forms):
        folder = path / "variants" / str(number)
        bases.append((folder, _write(folder / "tables", size, code, form)))
    for rank in range(many):
        own = len(forms) - 1 if rank == straggler(many) else rank % (len(forms) - 1)
        _link(path / "ranks" / f"{rank:05}", *bases[own], rank, many)


@dataclass
class _Rank(TrainingRun):
    """One of them: a run whose step is made already."""

    form: StepTemplate | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.form is not None
        self.template = self.form
        # Steps are equally long on all ranks, and start together.
        took = 150_000 + (self.form.period * self.scale).astype(np.int64) + 60_000
        self.waits = np.full(self.steps, 150_000)
        self.begins = BEGIN_NS + 1_000_000 + np.append(0, np.cumsum(took))
        self.end_ns = int(self.begins[-1]) + 1_000_000


def _forms(code: Program, many: int) -> list[StepTemplate]:
    """A step of each variant, and last that of the rank that sleeps: all leave an all-reduce when the last has come."""
    random = np.random.default_rng(11)
    sites, first = code.sites, step_template(code.sites, np.random.default_rng(7))
    took = first.end - first.start
    reduces = np.array([site.stream == 1 for site in sites])
    optimizer = next(row for row, site in enumerate(sites) if site.phase == "optimizer")
    a_layer = (sum(site.phase == "forward" for site in sites) - 3) // 24
    slow = next(row for row, site in enumerate(sites) if site.phase == "backward" and (site.node - 2) // a_layer == SLEEPS_IN)
    durations = [
        (took * random.uniform(1 - NOISE, 1 + NOISE, len(sites))).astype(np.int64) for _ in range(min(VARIANTS, many - 1) + 1)
    ]  # fmt: skip
    ready = []
    for number, own in enumerate(durations):
        pause = np.full(len(sites), 400)
        pause[slow] += SLEEP_NS if number == len(durations) - 1 else 0
        pause[reduces], own[reduces] = 0, 0
        ready.append(12_000 + np.cumsum(pause + own) - own)
    arrivals = np.stack([moment[reduces] for moment in ready])
    ends = np.zeros(0, dtype=np.int64)
    for last in arrivals.max(axis=0).tolist():
        ends = np.append(ends, max(last, int(ends[-1]) if len(ends) else 0) + ALL_REDUCE_NS)
    forms = []
    for moment, own in zip(ready, durations, strict=True):
        start = moment.copy()
        start[optimizer:] += max(int(ends[-1]) + 5_000 - int(moment[optimizer]), 0)
        end = start + own
        start[reduces] = np.maximum(start[reduces], np.append(0, ends[:-1]))
        end[reduces] = ends
        launch = np.where(reduces, moment, start) - 3_000
        loss = int(launch[-1]) + 5_000
        backward = int(launch[next(row for row, site in enumerate(sites) if site.phase == "backward")])
        forms.append(StepTemplate(launch, start, end, backward, int(launch[optimizer]), loss, max(int(end.max()), loss) + 12_000))
    period = max(form.period for form in forms)
    return [replace(form, period=period) for form in forms]


def _write(folder: Path, size: Size, code: Program, form: StepTemplate) -> Index:
    """The tables that ranks of a variant share."""
    tables = Tables(folder)
    run = _Rank(size, code, form=form)
    run.facts(tables)
    for first in range(0, run.steps, run.steps_a_chunk):
        run.work(tables, np.arange(first, min(first + run.steps_a_chunk, run.steps)))
    _calls(tables, run)
    _samples(tables, run)
    tables.finish()
    index = Index.read(Folder.open(folder))
    assert index is not None
    return index


def _calls(tables: Tables, run: _Rank) -> None:
    """The all-reduces as NCCL's plugin records them."""
    form, sites = run.template, run.program.sites
    reduces = np.array([site.stream == 1 for site in sites])
    base = (run.begins[: run.steps] + run.waits)[:, None]
    scale = run.scale[:, None]
    begin = base + ((form.launch[reduces] - 1_000) * scale).astype(np.int64)
    end = base + (form.end[reduces] * scale).astype(np.int64)
    tables.add("call_names", 1, backend=int(CallBackend.NCCL), name=["ncclAllReduce"])
    tables.add("groups", 1, backend=int(CallBackend.NCCL), handle=1, size=2, name=["default"])
    kind = int(CallKind.ASYNC)
    columns = {"begin_ns": begin.ravel(), "end_ns": end.ravel()}
    tables.add("calls", begin.size, name=1, thread=AUTOGRAD, group=1, peer=0xFFFFFFFF, kind=kind, bytes=BYTES, **columns)


def _samples(tables: Tables, run: _Rank) -> None:
    """CPU time, every 5 ms: a thread that sleeps is not met."""
    time_ns = np.arange(int(run.begins[0]), int(run.begins[-1]), 5_000_000)
    step = np.clip(np.searchsorted(run.begins, time_ns, side="right") - 1, 0, run.steps - 1)
    within = (time_ns - run.begins[step] - run.waits[step]) / run.scale[step]
    place = np.clip(np.searchsorted(run.template.launch, within, side="right") - 1, 0, len(run.program.sites) - 1)
    awake = within - run.template.launch[place] < 200_000
    stack: NDArray[np.int64] = run._site["stack"][place] + 1
    rows = {"thread": run._site["thread"][place][awake], "stack": stack[awake], "time_ns": time_ns[awake]}
    tables.add("cpu_samples", int(awake.sum()), weight=1, period_ns=5_000_000, **rows)


def _link(folder: Path, base: Path, index: Index, rank: int, many: int) -> None:
    tables = folder / "tables"
    for parts in index.tables.values():
        for part in parts:
            (tables / part.file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(base / "tables" / part.file, tables / part.file)
    schema = {"process": pl.UInt32(), **empty_frame(TABLE["ranks"]).schema}
    row = {"process": 0, "id": 1, "rank": rank, "size": many, "local_rank": rank % 8, "launcher": "torchrun", "job": "made up"}
    part = write_part(Folder.open(tables), "ranks", "00000", pl.DataFrame([row], schema=schema))
    Index(index.tables | {"ranks": (part,)}).write(Folder.open(tables))
    began, ended = (Clocks(at, at, at + 1_790_000_000_000_000_000) for at in (BEGIN_NS, BEGIN_NS + 1))
    host = Host(name=f"node{rank // 8}", cpu="made up", cores=16, boot_id="one clock for all")
    Meta(command=("python3", "train.py"), host=host, started=began, ended=ended, exit_status=0, complete=True).write(Folder.open(folder))


if __name__ == "__main__":
    sys.exit(main())
