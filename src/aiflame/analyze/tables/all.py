"""The tables of a profile for a person to sort and filter: kernels, ops, layers, phases, copies, idle gaps; functions and lines."""

from __future__ import annotations

from aiflame.analyze.device.profile_analysis import facts
from aiflame.analyze.tables.code import code_tables
from aiflame.analyze.tables.gpu import copies_table, kernels_table
from aiflame.analyze.tables.idle import gaps_table, idle_table, steps_table
from aiflame.analyze.tables.meaning import meaning_tables
from aiflame.analyze.tables.table import TableOf
from aiflame.profile.tables import Tables


def tables(profile: Tables) -> list[TableOf]:
    """Those that have rows, the most telling first."""
    known = facts(profile)
    found: list[TableOf] = []
    if known.ran_on_devices:
        found += [kernels_table(known, known.stalls), copies_table(known), idle_table(known), gaps_table(known)]
    found += [*meaning_tables(known), steps_table(known), *code_tables(known)]
    return [table for table in found if not table.rows.is_empty()]
