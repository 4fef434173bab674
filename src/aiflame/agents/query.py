"""The tool `query`: SQL over a profile's tables, run in a separate process that is ended if it takes too long."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from aiflame.agents.answer import Answer, Row, quoted
from aiflame.api import Profile
from aiflame.errors import AiflameError
from aiflame.profile.schema.all_tables import TABLE

SCHEMA = "aiflame.mcp.query/1"
TABLES = "aiflame.mcp.tables/1"
JOINS = "process and an id relate tables: kernels.shape is kernel_shapes.id, cpu_samples.stack is stacks.id, stacks.frame is symbols.frame"
SECONDS = 30.0
MOST_ROWS = 2000
LONGEST_QUERY = 20_000
PACKAGES = str(Path(__file__).absolute().parents[2])
_PROGRAM = f"import sys; sys.path[:1] = []; sys.path.append({PACKAGES!r}); from aiflame.agents.query_child import main; main()"
"""The current folder is not searched for modules."""
_THREADS = "2"
_RECORD_WITH: Mapping[str, str] = {
    "gpu_": "--gpu-sampling auto, and a program that uses a CUDA GPU",
    "stall_reasons": "--gpu-sampling auto, and a program that uses a CUDA GPU",
    "intra_": "--intra auto, and a program that runs Triton kernels",
    "allocations": "--gpu-memory",
    "physical_memory": "--gpu-memory, and a program that uses CUDA's virtual memory management",
    "host_": "--host-memory",
    "kernel": "a program that uses a GPU",
    "cop": "a program that copies to or from a GPU",
    "call": "--trace all",
    "telemetry": "--telemetry 50",
    "kept_files": "--keep-ir",
    "cpu_samples": "--wall, or for longer",
}
"""Beginnings of tables' names, and the options of `aiflame record` that fill them."""


def query_answer(profile: Profile, sql: str, rows: int, seconds: float = SECONDS) -> Answer:
    if not sql.strip():
        return _tables(profile)
    if len(sql) > LONGEST_QUERY:
        raise AiflameError(f"this query has {len(sql):,} characters: use at most {LONGEST_QUERY:,}")
    request = json.dumps({"profile": str(profile.path.absolute()), "sql": sql, "rows": min(max(rows, 1), MOST_ROWS)})
    try:
        child = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            input=request,
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd="/",
            env={**os.environ, "POLARS_MAX_THREADS": _THREADS},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AiflameError(f"this query took longer than {seconds:g} s and was ended: filter or group earlier, or add LIMIT") from None
    if child.returncode or not child.stdout:
        raise AiflameError(
            "this query needs more than 1 GiB of memory or a minute of CPU time: filter or group earlier, or select fewer columns"
        )
    reply = json.loads(child.stdout)
    if "error" in reply:
        raise AiflameError(reply["error"])
    listed: list[Row] = reply["rows"]
    facts = {"rows_in_all": reply["count"], **({} if reply["count"] else {"nothing": _empty(profile, sql)})}
    return Answer(SCHEMA, facts, untrusted={"columns": [quoted(name, 60) for name in reply["columns"]]}, untrusted_rows={"rows": listed})


def _tables(profile: Profile) -> Answer:
    """The tables that have rows, with their columns."""
    store = profile.store
    rows: list[Row] = []
    for name in sorted(store.names()):
        scan = store.scan(name)
        count = int(scan.select(pl.len()).collect().item())
        rows.append(
            {"table": quoted(name, 60), "rows": count, "columns": ", ".join(quoted(one, 60) for one in scan.collect_schema().names())}
        )
    return Answer(TABLES, {"joins": JOINS}, untrusted_rows={"tables": rows})


def _empty(profile: Profile, sql: str) -> str:
    """The tables in the query without rows, and how to fill the first of them."""
    empty = [name for name in TABLE if re.search(rf"\b{name}\b", sql) and not profile.store.has(name)]
    if not empty:
        return "no row matches"
    how = next((how for begin, how in _RECORD_WITH.items() if empty[0].startswith(begin)), "a program that does such work")
    return f"nothing recorded in {', '.join(empty)}: record with {how}"
