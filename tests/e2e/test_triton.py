"""Triton kernels by their specializations, from `aiflame record` to the tree: a real Triton, a fake driver (programs/fake_triton.py)."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recording import PROGRAMS, Run, recorder
from test_cuda_trees import FAKES

from aiflame.profile.schema.kinds import Kind

pytestmark = [
    pytest.mark.skipif(not (FAKES / "driver").exists(), reason=f"no {FAKES}: `make test` builds it"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton"),
]
Seen = tuple[dict[str, int], list[dict[str, Any]]]
Scene = Callable[..., Seen]
REPLAYED = "vadd_bs256_w8_s2"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of Triton for all scenes: their results do not depend on its contents."""
    return tmp_path_factory.mktemp("triton")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Scene:
    """Records scenes: how often each kernel ran, and the names in the binaries."""
    record = recorder(tmp_path_factory.mktemp("scenes"))

    def run(names: str, *options: str) -> tuple[dict[str, int], list[dict[str, Any]]]:
        env = {
            "LD_LIBRARY_PATH": f"{FAKES / 'driver'}:{FAKES / 'cupti13'}",
            "AIFLAME_CUPTI": str(FAKES / "cupti13" / "libcupti.so.13"),  # the vendor's may lie beside Triton
            "TRITON_CACHE_DIR": str(cache),
        }
        recording = record(sys.executable, PROGRAMS / "fake_triton.py", *names.split(), options=options, env=env)
        assert recording.status == 0, recording.stderr
        return launches(recording), json.loads(recording.stdout.splitlines()[0])

    return run


def launches(run: Run) -> dict[str, int]:
    tree = run.profile().tree("gpu-time")
    kernels = tree.frames.with_row_index("row").filter(kind=int(Kind.GPU_KERNEL)).select("row", "name").rows()
    return {name: int(tree.values["launches"][tree.frame == row].sum()) for row, name in kernels}


def test_two_specializations_have_their_names_and_the_binary_when_asked_for(scene: Scene) -> None:
    """With any contents of Triton's cache."""
    expected = {"vadd_bs128_w4_s2": 3, "vadd_bs256_w8_s2": 2}
    plain, named = ([{"name": name, "entry": True} for name in names] for names in (("vadd", "vadd"), expected))
    assert scene("two") == (expected, plain)
    assert scene("two", "--triton-names") == (expected, named)
    assert scene("two", "--triton-names") == (expected, named)
    assert scene("two") == (expected, plain)


@pytest.fixture(scope="module")
def alike_and_graph(scene: Scene) -> Seen:
    return scene("alike graph")


@pytest.fixture(scope="module")
def alike_and_own_named(scene: Scene) -> Seen:
    return scene("alike own", "--triton-names")


def test_specializations_with_hidden_differences_get_a_suffix(alike_and_graph: Seen, alike_and_own_named: Seen) -> None:
    counts = {name: count for name, count in alike_and_graph[0].items() if name != REPLAYED}
    assert counts.pop("vadd_bs128_w4_s2_fp32") == 1
    assert counts.pop("vadd_bs128_w4_s2_fp16") == 2
    assert sorted(counts.values()) == [3, 4] and all(name.startswith("vadd_bs256_w4_s2_") for name in counts)
    assert len({one["name"] for one in alike_and_own_named[1][:4]}) == 4


def test_a_name_of_the_programs_own_wins(alike_and_own_named: Seen) -> None:
    counts, binaries = alike_and_own_named
    assert [name for name in counts if not name.startswith("vadd_")] == ["mine_64"]
    assert (counts["mine_64"], binaries[4:]) == (1, [{"name": "mine_64", "entry": True}])


def test_a_replayed_kernel_has_the_name_of_the_captured_one(alike_and_graph: Seen) -> None:
    counts, _ = alike_and_graph
    assert (counts[REPLAYED], sum(counts.values())) == (6, 6 + 10)
