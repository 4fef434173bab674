"""The tables of a profile for people to sort and filter: kernels, ops, layers, phases, copies, idle gaps; functions and lines."""

from __future__ import annotations

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.tables.code import code_tables
from aiflame.analyze.tables.gpu import copies_table, kernels_table
from aiflame.analyze.tables.idle import gaps_table, idle_table, steps_table
from aiflame.analyze.tables.meaning import meaning_tables
from aiflame.analyze.tables.memory import memory_tables
from aiflame.analyze.tables.table import TableOf
from aiflame.profile.tables.interface import Tables


def tables(profile: Tables) -> list[TableOf]:
    """The tables that have rows, the most useful first."""
    analysis = profile_analysis(profile)
    every: list[TableOf] = []
    if analysis.ran_on_devices:
        every += [kernels_table(analysis, analysis.stalls), copies_table(analysis), idle_table(analysis), gaps_table(analysis)]
    every += [*meaning_tables(analysis), steps_table(analysis), *code_tables(analysis), *memory_tables(analysis.profile)]
    return [table for table in every if not table.rows.is_empty()]
