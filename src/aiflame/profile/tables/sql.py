"""SQL over a profile's tables and nothing else. Polars' dialect has functions that read files; these are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import polars as pl

from aiflame.errors import AiflameError

_READERS = re.compile(r"\b(?:read|scan|write|sink)_\w+", re.IGNORECASE)
"""Names of Polars' table functions: read_csv, read_parquet, read_json, read_ndjson, read_ipc."""
_QUOTED = re.compile(r"""'(?:''|[^'])*'|"(?:""|[^"])*"|`(?:``|[^`])*`""")
_NOT_PLAIN = re.compile(r"--|/\*|[\\#$]")
"""With comments, escapes or dollar quotes, only Polars' own parser can say where a text begins and ends."""
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(\w*)", re.DOTALL)
_CHANGING = frozenset({"alter", "copy", "create", "delete", "drop", "insert", "merge", "replace", "truncate", "update"})
_SCAN = re.compile(r"\b\w+ SCAN \[[^\]\n]*\]?", re.IGNORECASE)


def answer(query: str, names: Collection[str], scan: Callable[[str], pl.LazyFrame]) -> pl.DataFrame:
    """Runs a query over the tables called `names`. The query can reach no file, and change nothing."""
    try:
        _refuse_what_reads_files(query)
        frames = {name: scan(name) for name in names if re.search(rf"\b{name}\b", query)}
        plan = pl.SQLContext(frames).execute(query, eager=False)
        # Besides the check of words: the plan may read only the tables' own files.
        if not _scans(plan) <= {place for frame in frames.values() for place in _scans(frame)}:
            raise _refusal()
        return plan.collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        why = str(error).partition("\n")[0]
        raise AiflameError(f"this query cannot be answered: {why}; tables: {', '.join(names)}") from None


def _refuse_what_reads_files(query: str) -> None:
    words = query if _NOT_PLAIN.search(query) else _QUOTED.sub(lambda quoted: "''" if quoted[0][0] == "'" else quoted[0], query)
    if _READERS.search(words):
        raise _refusal()
    first = _FIRST_WORD.match(query)
    if first and first[1].lower() in _CHANGING:
        raise AiflameError(f"this query cannot be answered: profiles are read-only, and {first[1].upper()} would change tables")


def _refusal() -> AiflameError:
    return AiflameError(
        "this query cannot be answered: it reaches the profile's tables alone, and reads no other file; "
        "use polars.read_parquet and the like in Python, and join there"
    )


def _scans(frame: pl.LazyFrame) -> set[str]:
    return set(_SCAN.findall(frame.explain(optimized=False)))
