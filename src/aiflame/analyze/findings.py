"""The biggest findings of a profile: what takes the time that might be won back, in a sentence each. None where there is nothing to say."""

from __future__ import annotations

from aiflame.analyze.facts import Facts, facts
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings_kernels import hot_group
from aiflame.analyze.stalls import stalls
from aiflame.analyze.summary import Summary
from aiflame.attribute.stacks import Tables

__all__ = ["Evidence", "Finding", "findings"]


def findings(profile: Tables, summary: Summary, limit: int = 3, known: Facts | None = None) -> list[Finding]:
    """At most `limit`, those first that promise most. `known`: of the same profile, where they are there already."""
    known = known or facts(profile)
    waited = stalls(profile)
    whole = sum(device.whole_ns for device in summary.occupancy)
    busy = sum(device.busy_ns for device in summary.occupancy) / whole if whole else 0.0
    found = [*hot_group(known, waited, busy)]
    return sorted(found, key=lambda finding: (-finding.recoverable, finding.kind, finding.sentence))[:limit]
