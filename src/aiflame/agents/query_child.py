"""The process that answers one query: it opens the tables, gives up the right to open any other file, and then runs the SQL."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from pathlib import Path

import aiflame
from aiflame.agents.sandbox import limit, shut
from aiflame.agents.texts import text_rows
from aiflame.errors import AiflameError
from aiflame.json_text import json_text
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.tables import sql

_MEMORY = 1 << 30
_CPU_SECONDS = 60


def main() -> None:
    """Reads {"profile", "sql", "rows"} from stdin; writes {"count", "columns", "rows"} or {"error"}."""
    request = json.load(sys.stdin)
    try:
        print(json_text(_answer(Path(request["profile"]), request["sql"], request["rows"])))
    except AiflameError as error:
        print(json_text({"error": str(error)}))
    except MemoryError:
        sys.exit(1)


def _answer(profile: Path, query: str, rows: int) -> dict[str, object]:
    store = aiflame.open(profile).store
    names = sorted({*store.names(), *TABLE})
    frames = {}
    for name in names:
        if re.search(rf"\b{name}\b", query):
            with contextlib.suppress(KeyError):
                frames[name] = store.scan(name)
    limit(_MEMORY, _CPU_SECONDS)
    shut()
    answer = sql.answer(query, names, frames.__getitem__)
    return {"count": len(answer), "columns": answer.columns, "rows": text_rows(answer.head(rows))}
