"""How far two accounts of one recording agree: the regions that examples/llama/train_llama_marked.py marks by hand, and those that aiflame
finds without them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from aiflame.attribute.forest import Forest
from aiflame.attribute.meaning.context import Meaning, of_devices, of_samples
from aiflame.attribute.stacks.samples import VALUE
from aiflame.profile.schema.enums import GpuApi
from aiflame.profile.tables.interface import Tables

PHASES = ("Data loading", "Forward", "Backward", "Optimizer")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Parts of the time that the markers claim for a step and a phase."""

    items: int
    step: float
    phase: float
    layer: float
    all: float
    differing: pl.DataFrame
    """The differences: marked and found, and their time, most first."""


def names(forest: Forest) -> list[list[str]]:
    """For each node of a forest the names of its frames, outermost first."""
    frame_paths: list[list[str]] = [[]]
    frame = forest.frames["name"].to_list()
    for parent, row in zip(forest.parent[1:].tolist(), forest.frame[1:].tolist(), strict=True):
        frame_paths.append([*frame_paths[parent], frame[row]])
    return frame_paths


def cpu_agreement(profile: Tables) -> Agreement:
    """Agreement on CPU samples in which an op of torch runs."""
    meaning = of_samples(profile, 0)
    items = meaning.samples.filter(pl.col("op") > 0)
    return _compared(meaning, items.rename({VALUE: "time"}))


def gpu_agreement(profile: Tables) -> Agreement:
    """Agreement on kernels that are launched one by one."""
    meaning = of_devices(profile)
    return _compared(meaning, _kernels(profile, meaning))


def layers_known(profile: Tables) -> float:
    """The part of the GPU time of forward and backward work whose layer is known."""
    meaning = of_devices(profile)
    phases = ["".join(name) for name in names(meaning.forests["phase"])]
    rows = _kernels(profile, meaning)
    inside = rows.filter(pl.col("phase").is_in([phases.index("Forward"), phases.index("Backward")]))
    return float(inside.filter(pl.col("layer") > 0)["time"].sum() / max(int(inside["time"].sum()), 1))


def _kernels(profile: Tables, meaning: Meaning) -> pl.DataFrame:
    kernels = profile.table("kernels").select("process", "correlation", time=(pl.col("end_ns") - pl.col("start_ns")).cast(pl.Int64))
    launches = profile.table("launches").filter(pl.col("api") == int(GpuApi.CUDA)).select("process", "correlation", "id")
    took = kernels.join(launches, on=["process", "correlation"]).group_by("process", "id").agg(pl.col("time").sum())
    return meaning.launches.join(took, on=["process", "id"])


def _compared(meaning: Meaning, items: pl.DataFrame) -> Agreement:
    paths = names(meaning.forests["region"])
    marked = [_marked(paths[node]) for node in items["region"].to_list()]
    phases, layers = names(meaning.forests["phase"]), names(meaning.forests["layer"])
    of_phase = ["".join(name) for name in phases]
    of_layer = [".".join(name) for name in layers]
    rows = items.select("time", "step", "phase", "layer").with_columns(
        found_phase=pl.Series([of_phase[node] for node in items["phase"].to_list()], dtype=pl.String),
        found_layer=pl.Series([of_layer[node] for node in items["layer"].to_list()], dtype=pl.String),
        marked_step=pl.Series([each[0] for each in marked], dtype=pl.Int64),
        marked_phase=pl.Series([each[1] for each in marked], dtype=pl.String),
        marked_layer=pl.Series([each[2] for each in marked], dtype=pl.String),
    )
    rows = rows.filter((pl.col("marked_step") >= 0) & (pl.col("marked_phase") != ""))
    # The markers leave the embedding's backward out, for want of a gradient of its words.
    unmarked = (pl.col("found_layer") == "embed") & (pl.col("marked_phase") == "Backward")
    same = {
        "step": pl.col("step") == pl.col("marked_step"),
        "phase": pl.col("found_phase") == pl.col("marked_phase"),
        "layer": (pl.col("found_layer") == pl.col("marked_layer")) | unmarked,
    }
    rows = rows.with_columns(**{f"same_{name}": agrees for name, agrees in same.items()})
    rows = rows.with_columns(same_all=pl.all_horizontal(f"same_{name}" for name in same))
    total = max(int(rows["time"].sum()), 1)
    share = {name: float(rows.filter(f"same_{name}")["time"].sum() / total) for name in (*same, "all")}
    shown = ["marked_phase", "found_phase", "marked_layer", "found_layer"]
    differing = rows.filter(~pl.col("same_all")).group_by(shown).agg(pl.col("time").sum() / total, pl.len()).sort("time", descending=True)
    return Agreement(len(rows), share["step"], share["phase"], share["layer"], share["all"], differing)


def _marked(path: list[str]) -> tuple[int, str, str]:
    """Step, phase and layer as marked; -1 and empty where there is no marker."""
    step = next((int(name.removeprefix("Step.")) for name in path if name.startswith("Step.")), -1)
    phase = next((name for name in path if name in PHASES), "")
    inner = path[-1] if path and path[-1] not in PHASES and not path[-1].startswith("Step.") else ""
    return step, phase, inner
