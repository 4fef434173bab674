"""speedscope's format, as https://www.speedscope.app/file-format-schema.json defines it."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from trees import PROCESS, THREAD, TREES, c, paths, py, tree

from aiflame.attribute.tree import CPU_TIME, Frame, Kind, Metric, Tree, from_stacks
from aiflame.exchange.writers import speedscope
from aiflame.version import VERSION

GOLDEN = Path(__file__).parents[2] / "golden" / "stacks.speedscope.json"


def written(of: Tree) -> str:
    text = io.StringIO()
    speedscope.write(of, of.metrics[0].name, text)
    return text.getvalue()


def loaded(of: Tree) -> dict[str, Any]:
    return json.loads(written(of))  # type: ignore[no-any-return]


def test_a_file_is_as_it_always_was() -> None:
    of = tree(
        ((PROCESS, THREAD, py("train", "/src/train.py", 12), c("work;\n")), 70),
        ((PROCESS, THREAD, py("train", "/src/train.py", 12)), 20),
        ((PROCESS, Frame("[unattributed: no stack]", Kind.UNATTRIBUTED)), 10),
    )
    assert written(of) == GOLDEN.read_text().replace("VERSION", VERSION)


@given(TREES)
def test_every_stack_is_a_sample_and_its_value_the_weight(of: Tree) -> None:
    file = loaded(of)
    names = [frame["name"] for frame in file["shared"]["frames"]]
    (profile,) = file["profiles"]
    weights: Counter[tuple[str, ...]] = Counter()
    for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
        weights[tuple(names[frame] for frame in sample)] += weight
    assert weights == paths(of)


@given(TREES)
def test_it_has_the_fields_that_the_schema_requires(of: Tree) -> None:
    file = loaded(of)
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    (profile,) = file["profiles"]
    assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "nanoseconds", 0)
    assert profile["endValue"] == sum(profile["weights"]) == of.total("cpu-time")
    assert all(set(frame) <= {"name", "file", "line", "col"} and frame["name"] for frame in file["shared"]["frames"])


def test_units_are_speedscopes_own() -> None:
    units = {"ns": "nanoseconds", "bytes": "bytes", "samples": "none", "J": "none"}
    for unit, name in units.items():
        of = from_stacks([((py("a"),), 1)], Metric("m", unit, "label"))
        assert loaded(of)["profiles"][0]["unit"] == name


def test_an_empty_tree_is_a_valid_file() -> None:
    profile = loaded(from_stacks([], CPU_TIME))["profiles"][0]
    assert (profile["samples"], profile["weights"], profile["endValue"]) == ([], [], 0)


def test_many_stacks_are_written_in_pieces_that_fit_together() -> None:
    of = from_stacks([((py(f"f{number}"),), number) for number in range(1, 5001)], CPU_TIME)
    profile = loaded(of)["profiles"][0]
    assert len(profile["samples"]) == len(profile["weights"]) == 5000
