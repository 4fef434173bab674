"""`memory_timeline.raw.json` of torch.profiler: bytes by category at the peak and at the end."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from itertools import accumulate
from pathlib import Path

import pytest
from memory_tables import ROWS

import aiflame
from aiflame.exchange.readers.formats import FORMATS

REAL = sorted((Path(os.environ.get("AIFLAME_TRACES", "/nowhere")) / "memory-snapshot").glob("*.raw.gz"))
NAMES = ("parameters", "optimizer state", "inputs", "temporaries", "activations", "gradients", "autograd detail", "other memory")
FORMAT = next(one for one in FORMATS if one.name == "torch memory timeline")


def sums(file: Path, metric: str) -> dict[str, int]:
    tree = aiflame.open(file).tree(metric)
    names = tree.frames["name"].to_list()
    return {names[tree.frame[node]].strip("[]"): int(value) for node, value in enumerate(tree.values[metric].tolist()) if value}


def test_categories_at_the_peak_and_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "timeline.json"
    file.write_text(json.dumps(ROWS))
    assert sums(file, "live-at-peak") == {"parameters": 1000, "gradients": 400, "temporaries": 50}
    assert sums(file, "live-at-end") == {"parameters": 1000}
    assert sums(file, "allocated") == {"activations": 400, "temporaries": 50}
    assert sums(file, "allocations") == {"activations": 1, "temporaries": 1}


def test_sizes_after_each_change(tmp_path: Path) -> None:
    """The file that torch names `.json`: it has the same bytes at the peak and at the end, and no allocations."""
    file = tmp_path / "curve.json"
    live, sizes = [0] * len(NAMES), []
    for _, _, size, category in ROWS:
        live[category] += size
        sizes.append([0, *live])
    file.write_text(json.dumps([[1795750806987573 + number for number in range(len(ROWS))], sizes]))
    assert sums(file, "live-at-peak") == {"parameters": 1000, "gradients": 400, "temporaries": 50}
    assert sums(file, "live-at-end") == {"parameters": 1000}
    source = aiflame.open(file).store.meta.imported
    assert source is not None and source.lacks == ("stacks", "allocations")


@pytest.mark.parametrize("rows", [[[0, 1]], [[0] * 8 + ["x"]], [[0] * 8 + [-1]], [[0] * 9, 7]])
def test_rows_that_are_no_sizes_are_counted(tmp_path: Path, rows: list[object]) -> None:
    file = tmp_path / "curve.json"
    file.write_text(json.dumps([[1795750806987573] * 5, rows]))
    assert "1 rows of the timeline are no sizes" in " ".join(aiflame.open(file).store.meta.degraded)


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.name)
def test_sums_of_a_real_timeline(file: Path) -> None:
    rows = json.loads(gzip.decompress(file.read_bytes()))
    totals = list(accumulate(row[2] for row in rows))
    peak = totals.index(max(totals))
    for metric, until in (("live-at-peak", peak + 1), ("live-at-end", len(rows))):
        theirs: Counter[str] = Counter()
        for _, _, size, category in rows[:until]:
            theirs[NAMES[category]] += size
        assert sums(file, metric) == {name: size for name, size in theirs.items() if size}


def test_rows_that_are_no_changes_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "timeline.json"
    file.write_text(json.dumps([*ROWS, [1, 2], "x", [1, 9, 1, 1], [1, 2, 1 << 70, 0], [True, 1, 1, 1]]))
    assert "5 rows of the timeline are no changes of memory" in " ".join(aiflame.open(file).store.meta.degraded)
