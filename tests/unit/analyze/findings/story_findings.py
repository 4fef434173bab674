"""Findings of a story by their kind; each list is checked for its order and for JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from small_program import SYMBOLS
from stories import MAIN, Story

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.overview.summary import summarize
from aiflame.attribute.analysis import Analysis
from aiflame.profile.folder.meta import Meta


def found(story: Story, path: Path, limit: int = 99) -> dict[str, Finding]:
    profile = story.profile(path, **({} if story.tables["symbols"] else {"symbols": SYMBOLS}))
    analysis = Analysis(profile)
    listed = findings(analysis, summarize(analysis, Meta()), limit)
    assert [finding.recoverable for finding in listed] == sorted((finding.recoverable for finding in listed), reverse=True)
    json.dumps([asdict(finding) for finding in listed])
    return {finding.kind: finding for finding in listed}


def busy(story: Story, until: float, begin: float = 0, name: str = "sgemm", *layers: str) -> None:
    """One kernel without a gap, launched long before."""
    if layers:
        story.layer_work(begin, begin, until, *layers, name=name)
    else:
        story.work(begin, begin, until, MAIN, name=name)
