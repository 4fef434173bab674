"""The same facts on a Dask cluster."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from made_ranks import Made, job
from test_ranks_facts import plain

from aiflame.analyze.ranks.fan_out import here, on_dask
from aiflame.analyze.ranks.sources import Source, sources
from aiflame.errors import AiflameError

MADE = Made(ranks=3, steps=3, sleeps={(2, 2): 20})


def test_a_cluster_gives_the_same_as_processes_here_and_notes_an_unreadable_rank(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    profiles, _ = sources([job(tmp_path / "job.aiflame", MADE)])
    profiles.append(Source(str(tmp_path / "gone.aiflame"), 3))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        there = on_dask(profiles, cluster.scheduler_address)
    assert [one.rank for one in there.facts] == [0, 1, 2]
    assert len(there.notes) == 1
    assert plain(there) == plain(here(profiles, 1 << 30, processes=1))


def test_without_the_package_one_line_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(AiflameError, match=r"pip install 'aiflame\[dask\]'"):
        on_dask([], "tcp://127.0.0.1:1")
