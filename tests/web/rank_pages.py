"""Reports of parallel jobs, for the tests of their page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from made_ranks import Made, job

from aiflame.analyze.ranks.facts import Partial
from aiflame.analyze.ranks.fan_out import here
from aiflame.analyze.ranks.one_profile import answer
from aiflame.analyze.ranks.page import rank_page
from aiflame.analyze.ranks.sources import sources
from aiflame.render.report.page import page as report_page
from aiflame.render.report.ranks import ranks_block

SLEEPS = Made(sleeps={(2, 1): 20})
"""Rank 2 sleeps for 20 ms before the backward work of layer 1."""


def many_ranks(folder: Path, many: int) -> Path:
    """A page of so many ranks, made of four recorded ones: all but rank 2 are copies of rank 0."""
    partial = here(sources([job(folder / "job.aiflame", SLEEPS)])[0], 1 << 30, processes=1)
    facts = tuple(replace(partial.facts[2 if rank == 2 else 0], rank=rank, source=str(rank)) for rank in range(many))
    partial = Partial(facts)
    block = ranks_block(rank_page(partial, answer(partial)), 0)
    summary = {"metric": "cpu-time", "metrics": [{"name": "cpu-time"}]}
    page_head = {"blocks": ["ranks"], "summary": summary, "findings": [], "steps": [], "panels": [], "started_ns": 0}
    path = folder / "many.html"
    path.write_text("".join(report_page("many", page_head, [("ranks", block)])), encoding="utf-8")
    return path
