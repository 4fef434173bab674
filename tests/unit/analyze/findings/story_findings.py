"""Findings of a story by their kind; each list is checked for its order and for JSON."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path

from calling import run_aiflame
from small_program import SYMBOLS
from stories import MAIN, Story

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.overview.summary import summarize
from aiflame.analyze.tables.all import tables
from aiflame.attribute.analysis import Analysis
from aiflame.cli.commands import load, parser
from aiflame.profile.folder.meta import Meta
from aiflame.render.terminal.findings_list import look

_looked: set[tuple[object, ...]] = set()
"""Kinds of findings, and the command of their evidence: each is tried once, since commands take a while."""


def found(story: Story, path: Path, limit: int = 99) -> dict[str, Finding]:
    profile = story.profile(path, **({} if story.tables["symbols"] else {"symbols": SYMBOLS}))
    analysis = Analysis(profile)
    listed = findings(analysis, summarize(analysis, Meta()), limit)
    assert [finding.recoverable for finding in listed] == sorted((finding.recoverable for finding in listed), reverse=True)
    json.dumps([asdict(finding) for finding in listed])
    for finding in listed:
        _look_at(finding, path / "p.aiflame", analysis)
    return {finding.kind: finding for finding in listed}


def _look_at(finding: Finding, path: Path, analysis: Analysis) -> None:
    """Runs the command that a finding proposes: it must show something, and the rows that the finding names."""
    view = finding.view
    key = (finding.kind, view.view, view.metric, view.by, view.table)
    if key in _looked:
        return
    _looked.add(key)
    command = look(finding, str(path))
    program, name, *options = shlex.split(command.partition(" && ")[0])
    assert program == "aiflame"
    parsed = parser(name, load(name)).parse(options)
    if name == "record":
        assert parsed.wall
        return
    if name == "open":
        if view.table:
            assert view.table in {table.name for table in tables(analysis)}
        return
    if name == "flame":
        options += ["-o", str(path.parent / "evidence.svg")]
    said = run_aiflame(name, *options)
    assert (said.status, said.err) == (0, "") or (said.status, name) == (0, "flame"), (command, said)
    assert said.out, command
    for row in view.names if name == "top" else ():
        assert row.rpartition(".")[2] in said.out, (command, row)


def busy(story: Story, until: float, begin: float = 0, name: str = "sgemm", *layers: str) -> None:
    """One kernel without a gap, launched long before."""
    if layers:
        story.layer_work(begin, begin, until, *layers, name=name)
    else:
        story.work(begin, begin, until, MAIN, name=name)
