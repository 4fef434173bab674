"""torch.compile with the C++ backend: each kernel leads to its ops, layers and lines, from a cold cache and from a warm one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from recording import PROGRAMS, PYTHON, UNSEALED, time_under
from torch_programs import ONE_COMPILES, needs_torch

from aiflame import open as open_profile
from aiflame.api import Profile
from aiflame.attribute.meaning.fused_kernels import KernelOrigins, kernel_origins
from aiflame.attribute.tree import Tree
from aiflame.profile.tables.interface import OpenedProfile as Store

pytestmark = needs_torch

PROGRAM = PROGRAMS / "compiled_block.py"
SECONDS = "1.5"
FOREIGN_SECONDS = "1"
"""Of a run whose times nobody compares."""
OF_GRAPHS = shutil.ignore_patterns("fxgraph", "aotautograd")
"""Folders of the cache. The others hold the libraries that g++ compiled, by the hash of their source."""


def line_of(code: str) -> int:
    return next(number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if code in line)


NORM, GELU, ADD = line_of("normed = self.norm(x)"), line_of("functional.gelu(self.up("), line_of("return x + self.down")


@dataclass(frozen=True, slots=True)
class Runs:
    """The same program, in this order, with the caches named below."""

    alone: dict[str, Any]
    """Not recorded, empty cache."""
    cold: Profile
    """Recorded, with another cache, which has no graph."""
    cold_told: dict[str, Any]
    warm: Profile
    """Recorded, with that cache again."""
    warm_told: dict[str, Any]
    foreign: Profile
    """Recorded, with the cache of the run that was not."""
    foreign_told: dict[str, Any]
    reused: dict[str, Any]
    """Not recorded, with the cache of those that were."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("compiled")

    def run(cache: str, name: str = "", *options: str, seconds: str = SECONDS) -> tuple[Profile | None, dict[str, Any]]:
        path = folder / f"{name}.aiflame"
        recorder = [PYTHON, "-m", "aiflame.cli.main", "record", UNSEALED, "-o", str(path), *options, "--"] if name else []
        env = {**os.environ, **ONE_COMPILES, "TORCHINDUCTOR_CACHE_DIR": str(folder / cache)}
        command = [*recorder, PYTHON, str(PROGRAM), seconds if name else "0"]
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900, check=False, cwd=folder)
        assert result.returncode == 0, result.stderr
        return (open_profile(path) if name else None), json.loads(result.stdout.splitlines()[0])

    _, alone = run("alone")
    shutil.copytree(folder / "alone", folder / "recorded", ignore=OF_GRAPHS)
    cold, cold_told = run("recorded", "cold", "--keep-ir")
    warm, warm_told = run("recorded", "warm")
    foreign, foreign_told = run("alone", "foreign", seconds=FOREIGN_SECONDS)
    _, reused = run("recorded")
    assert cold is not None
    assert warm is not None
    assert foreign is not None
    return Runs(alone, cold, cold_told, warm, warm_told, foreign, foreign_told, reused)


@pytest.fixture(scope="module", params=["cold", "warm"])
def store(request: pytest.FixtureRequest, runs: Runs) -> Store:
    profile: Profile = getattr(runs, request.param)
    return profile.store


def kernels(store: Store) -> pl.DataFrame:
    """The recorded origins, an op a row."""
    rows = store.table("kernel_origins").select("kernel", "module", "origins").rows()
    reports = [
        {"kernel": kernel, "module": module, "call": number, "in_backward": json.loads(text)["backward"], **op}
        for number, (kernel, module, text) in enumerate(rows)
        for op in json.loads(text)["ops"]
    ]
    return pl.DataFrame(reports)


def samples(store: Store) -> pl.DataFrame:
    rows = store.table("cpu_samples").filter(pl.col("clock") == 0)
    return rows.select("process", "stack", value=pl.col("weight").cast(pl.Int64) * pl.col("period_ns").cast(pl.Int64))


def sets(origins: KernelOrigins, rows: pl.DataFrame) -> np.ndarray:
    return origins.of_stacks(rows["process"].to_numpy().astype(np.int64), rows["stack"].to_numpy().astype(np.int64))


def in_kernels(store: Store, rows: pl.DataFrame) -> list[bool]:
    """Which rows' stacks pass through a function of a kernel's."""
    symbols = store.table("symbols").filter(pl.col("name").str.starts_with("cpp_fused")).select("process", "frame")
    words = set(symbols.rows())
    under_words: dict[tuple[int, int], bool] = {}
    for process, number, parent, frame in store.table("stacks").sort("process", "id").select("process", "id", "parent", "frame").rows():
        under_words[process, number] = (process, frame) in words or under_words.get((process, parent), False)
    return [under_words.get(row, False) for row in rows.select("process", "stack").rows()]


def test_results_are_the_same_to_the_bit_and_graphs_are_not_compiled_again(runs: Runs) -> None:
    reports = [runs.alone, runs.cold_told, runs.warm_told, runs.foreign_told, runs.reused]
    assert {each["results"] for each in reports} == {runs.alone["results"]}
    assert {each["graphs"] for each in reports} == {2}  # the second batch size makes a graph for any


def test_caches_are_as_good_with_recording_as_without(runs: Runs) -> None:
    assert [each["hits"] for each in (runs.alone, runs.cold_told)] == [0, 0]
    for warm in (runs.warm_told, runs.foreign_told, runs.reused):
        assert (warm["hits"], warm["misses"]) == (runs.alone["misses"], 0)


def test_every_kernel_has_its_ops_and_their_lines(store: Store) -> None:
    ops = kernels(store)
    assert ops["op"].str.starts_with("aten::").all()
    in_program = ops.filter(pl.col("kernel").str.starts_with("cpp_fused"))
    assert set(in_program["file"]) == {str(PROGRAM)}
    assert (in_program["line"] > 0).all()


def test_a_fused_kernel_has_each_op_with_the_layer_and_line_that_it_is_from(store: Store) -> None:
    fused = kernels(store).filter(pl.col("kernel").str.contains("add_native_layer_norm") & ~pl.col("in_backward"))
    assert set(fused.select("op", "layer", "line").unique().rows()) >= {
        ("aten::add", "layers.0", ADD),
        ("aten::native_layer_norm", "layers.1.norm", NORM),
    }
    assert set(fused.filter(op="aten::native_layer_norm")["type"]) == {"torch.nn.modules.normalization.LayerNorm"}


def test_one_kernel_that_serves_two_layers_has_two_calls(store: Store) -> None:
    gelu = kernels(store).filter(~pl.col("in_backward") & (pl.col("op") == "aten::gelu"))
    layers = gelu.group_by("kernel", "module").agg(pl.col("layer").sort())
    assert ["layers.0", "layers.1"] in layers["layer"].to_list()
    assert set(gelu["line"]) == {GELU}


def test_backward_kernels_have_the_layers_and_lines_of_the_forward_code(store: Store) -> None:
    backward = kernels(store).filter("in_backward")
    norms = backward.filter(op="aten::native_layer_norm_backward").select("layer", "line", "backward").unique().rows()
    assert set(norms) == {("layers.0.norm", NORM, True), ("layers.1.norm", NORM, True)}
    products = backward.filter(op="aten::mm")
    assert set(products["layer"]) == {f"layers.{number}.{name}" for number in (0, 1) for name in ("up", "down")}


def test_a_warm_cache_gives_the_same_origins_as_a_cold_one(runs: Runs) -> None:
    assert kernels(runs.warm.store).equals(kernels(runs.cold.store))


def test_all_time_in_compiled_kernels_is_divided_over_ops(store: Store) -> None:
    origins, rows = kernel_origins(store), samples(store)
    inside = rows.filter(pl.Series(in_kernels(store, rows)))
    assert inside["value"].sum() > 0
    assert (sets(origins, inside) > 0).all()

    divided = origins.divide(sets(origins, rows), rows["value"].to_numpy())
    assert int(divided.value.sum()) == rows["value"].sum()
    assert (divided.part[np.isin(divided.item, np.flatnonzero(sets(origins, rows)))] >= 0).all()


def time_of_parts(store: Store) -> pl.DataFrame:
    """The parts of kernels that were sampled, with their time in `value`."""
    origins, rows = kernel_origins(store), samples(store)
    divided = origins.divide(sets(origins, rows), rows["value"].to_numpy())
    return origins.parts[divided.part[divided.part >= 0]].with_columns(value=pl.Series(divided.value[divided.part >= 0]))


def test_time_is_found_under_both_layers_forward_and_backward(store: Store) -> None:
    time = time_of_parts(store)
    for layer in ("layers.0", "layers.1"):
        for backward in (False, True):
            here = time.filter(pl.col("layer").str.starts_with(layer) & (pl.col("backward") == backward))
            assert here["value"].sum() > 0, (layer, backward)


@pytest.mark.parametrize("by", ["layer", "op"])
def test_groupings_show_the_layers_and_ops_of_compiled_kernels_and_lose_nothing(runs: Runs, by: str) -> None:
    tree, whole = runs.warm.tree("cpu-time", by=by), samples(runs.warm.store)["value"].sum()
    assert int(tree.values["cpu-time"].sum()) == whole
    assert "estimated bytes" in tree.metrics[0].label
    part = time_of_parts(runs.warm.store).group_by("op", "backward").agg(pl.col("value").sum()).rows()
    assert {backward for _, backward, _ in part} == {False, True}
    ops: Counter[str] = Counter()
    for op, backward, value in part:
        ops[f"{op.removesuffix('_backward')} (backward)" if backward else op] += value
    for name, value in ops.items():
        assert time_under(tree, name) >= value, name
    for layer in ["layers.0", "layers.1"] if by == "layer" else []:
        assert time_under(tree, layer) > 0
    assert not tree.frames.filter(pl.col("name").str.starts_with("fused:"))["name"].is_in(used_names(tree)).any()


def used_names(tree: Tree) -> list[str]:
    """Names of frames that hold a value."""
    names = tree.frames["name"].to_list()
    return [names[frame] for frame in np.unique(tree.frame).tolist()]


def test_a_cache_filled_without_recording_gives_ops_and_lines_and_a_note(runs: Runs) -> None:
    store = runs.foreign.store
    ops = kernels(store)
    fused = ops.filter(pl.col("kernel").str.contains("add_native_layer_norm") & ~pl.col("in_backward"))
    assert set(fused["op"]) >= {"aten::add", "aten::native_layer_norm"}
    assert set(ops.filter(pl.col("op") == "aten::gelu", ~pl.col("in_backward"))["line"]) == {GELU}
    assert set(ops["layer"]) == {""}
    assert [note for note in store.notes() if "no layers" in note]
    origins, rows = kernel_origins(store), samples(store)
    assert (sets(origins, rows) > 0).any()


def test_graphs_and_generated_code_are_kept_on_request(runs: Runs) -> None:
    kept = runs.cold.store.table("kept_files")
    assert set(kept["kind"]) == {"fx pre grad", "fx post grad", "inductor"}
    for kind, file in kept.select("kind", "file").rows():
        text = (Path(runs.cold.store.path) / "kept" / file).read_text()
        assert ("class" if kind.startswith("fx") else "async_compile") in text
    assert runs.warm.store.table("kept_files").is_empty()
