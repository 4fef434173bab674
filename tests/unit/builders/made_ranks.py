"""Ranks of a training without devices, written down moment by moment, in milliseconds: three layers, forwards and backwards, and an
all-reduce of each layer's gradients, begun as soon as they are there. The test gives each rank's work and its duration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from profiles import Row, sealed
from written_programs import BACKWARD, CALL_IMPL, OPTIMIZER_STEP, TENSOR_BACKWARD, TRAIN, Program

from aiflame.profile.folder.meta import Clocks, Host, Meta
from aiflame.profile.schema.enums import CallBackend, CallKind
from aiflame.profile.tables.store import Profile

MS = 1_000_000
LAYERS = (0, 1, 2)
WORK, OPTIMIZER, REDUCE = 10, 5, 2
"""Durations of a layer in each direction, of the optimizer, and of an all-reduce once all ranks have come."""
BEGIN = 1_000
ENGINE = ("torch::autograd::Engine::evaluate_function", "torch::autograd::Node::operator()")


@dataclass(frozen=True, slots=True)
class Made:
    """Ranks' deviations. `sleeps[2, 1]`: rank 2 sleeps before the backward work of layer 1; the others likewise."""

    ranks: int = 4
    steps: int = 6
    sleeps: Mapping[tuple[int, int], int] = field(default_factory=dict)
    longer: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """More work in the backward of a layer."""
    loads: Mapping[int, int] = field(default_factory=dict)
    """A rank waits for data before each step."""
    skew: Mapping[int, int] = field(default_factory=dict)
    """How far a rank's clock is ahead; each rank is then on a host of its own."""
    samples: bool = True
    together: int = 0
    """How many neighbouring ranks are a group that reduces on its own; 0: all."""

    @property
    def step(self) -> int:
        """How long a step takes."""
        slowest = max(self.loads.get(rank, 0) + 2 * WORK * len(LAYERS) + self._more(rank) for rank in range(self.ranks))
        return slowest + REDUCE + OPTIMIZER

    def _more(self, rank: int) -> int:
        return sum(more for of in (self.sleeps, self.longer) for (one, _), more in of.items() if one == rank)

    def arrivals(self, rank: int) -> dict[int, int]:
        """When it comes to each layer's all-reduce, after a step's beginning."""
        moment, moments = self.loads.get(rank, 0) + WORK * len(LAYERS), {}
        for layer in reversed(LAYERS):
            moment += self.sleeps.get((rank, layer), 0) + self.longer.get((rank, layer), 0) + WORK
            moments[layer] = moment
        return moments


def job(path: Path, program: Made) -> Path:
    """A profile with a folder for each rank."""
    for rank in range(program.ranks):
        (path / "ranks" / f"{rank:05}").parent.mkdir(parents=True, exist_ok=True)
        write(path / "ranks" / f"{rank:05}", program, rank)
    return path


def write(path: Path, program: Made, rank: int) -> Profile:
    skew = program.skew.get(rank, 0) * MS
    tables = tables_of(program, rank, skew)
    host = Host(name=f"node{rank}" if program.skew else "node", boot_id=str(rank) if program.skew else "one")
    # Hosts keep the time of day to within some milliseconds.
    realtime = 1_790_000_000_000_000_000 - skew + (3 * rank * MS if program.skew else 0)
    meta = Meta(host=host, started=Clocks(BEGIN * MS, BEGIN * MS, BEGIN * MS + realtime), complete=True)
    return sealed(path, meta, **tables)


def tables_of(program: Made, rank: int, skew: int = 0) -> dict[str, list[Row]]:
    one = _Rank()
    one.layer("model")
    ends = {layer: max(program.arrivals(other)[layer] for other in range(program.ranks)) + REDUCE for layer in LAYERS}
    calls: list[Row] = []
    for step in range(program.steps):
        begin = BEGIN + step * program.step
        one.moment(begin)
        if rank in program.loads:
            one.during("data", begin, begin + program.loads[rank])
        begin += program.loads.get(rank, 0)
        nodes = {}
        for layer in LAYERS:
            one.moment(begin + WORK * layer + 1)
            with one.called(f"model/layers.{layer}", grad=True):
                pass
            nodes[layer] = one.sequence
            inside = (TRAIN, CALL_IMPL, "layer model", CALL_IMPL, f"layer model/layers.{layer}", "at::_ops::addmm::call")
            one.worked(begin + WORK * layer, WORK, inside, 1, nodes[layer])
        begin = BEGIN + step * program.step
        for layer, came in program.arrivals(rank).items():
            took = WORK + program.longer.get((rank, layer), 0)
            one.worked(begin + came - took, took, (TRAIN, TENSOR_BACKWARD, *ENGINE), BACKWARD | 1, nodes[layer])
            calls.append(
                {"name": 1, "thread": 1, "stack": one.stack(TRAIN, TENSOR_BACKWARD, *ENGINE), "group": 1, "peer": 0xFFFFFFFF,
                 "kind": int(CallKind.ASYNC), "autograd": BACKWARD | 1, "sequence": nodes[layer], "bytes": 4096,
                 "begin_ns": (begin + came) * MS, "end_ns": (begin + ends[layer]) * MS}
            )  # fmt: skip
        until = begin + program.step
        one.worked(until - OPTIMIZER, OPTIMIZER, (TRAIN, OPTIMIZER_STEP), 1, one.sequence)
        one.during("optimizer", until - OPTIMIZER, until, payload=0xA)
    tables = {name: rows for name, rows in one.tables.items() if rows}
    if not program.samples:
        del tables["cpu_samples"]
    tables["calls"] = calls
    tables["call_names"] = [{"backend": int(CallBackend.TORCH), "name": "gloo:all_reduce"}]
    size = program.together or program.ranks
    members = b"".join((rank - rank % size + place).to_bytes(4, "little") for place in range(size)) if program.together else b""
    group = {"backend": int(CallBackend.TORCH), "handle": 77, "rank": rank % size, "size": size, "members": members, "name": "default_pg"}
    tables["groups"] = [group]
    tables["ranks"] = [{"rank": rank, "size": program.ranks, "local_rank": 0, "launcher": "torchrun"}]
    tables["processes"] = [{"pid": 4711 + rank, "command": "python\0train.py"}]
    for rows in tables.values():
        for row in rows:
            row |= {name: row[name] + skew for name in row if name in ("begin_ns", "end_ns", "time_ns")}
    return tables


class _Rank(Program):
    def moment(self, at: int) -> None:
        self.now = at * MS

    def worked(self, begin: int, took: int, frames: tuple[tuple[str, str] | str, ...], autograd: int, sequence: int) -> None:
        """Met once, by a sample that stands for all of it."""
        self.moment(begin + took)
        self.sample(*frames, autograd=autograd, sequence=sequence)
        self.tables["cpu_samples"][-1] |= {"time_ns": (begin + took) * MS, "period_ns": took * MS}

    def during(self, name: str, begin: int, end: int, payload: int = 0) -> None:
        with self.region(name, payload):
            pass
        self.tables["regions"][-1]["begin_ns"] = begin * MS
        self.tables["region_ends"][-1]["end_ns"] = end * MS
