"""Chooses the source file that a name means: its path, the end of its path, or a function in it; and gives the file's lines as JSON."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.kernel.source_text import SourceText
from aiflame.analyze.source.lines import SourceLines
from aiflame.json_text import json_text, schema


def file_of(source: SourceLines, wanted: str) -> str | None:
    """The file's path; if several match, the first in `files`. None if nothing matches."""
    paths = source.files["path"].to_list()
    for path in paths:
        if path == wanted or path.endswith("/" + wanted.removeprefix("./")):
            return str(path)
    within = source.lines.filter(pl.col("function") == wanted).sort("total", descending=True)
    return str(paths[within["file"][0]]) if len(within) else None


def to_json(source: SourceLines, path: str, text: SourceText, scope: dict[str, object]) -> str:
    """`aiflame annotate FILE --json`: docs/json.md."""
    (file,) = source.files.filter(pl.col("path") == path).rows(named=True)
    lines = [
        {
            "line": line,
            "text": text.line(line),
            "function": function,
            "self": own,
            "total": total,
            "self_percent": _percent(own, source.total),
            "total_percent": _percent(total, source.total),
        }
        for line, function, own, total in source.of_file(path).select("line", "function", "self", "total").rows()
    ]
    document = {
        "schema": schema("annotate"),
        "scope": scope,
        "metric": source.metric.name,
        "unit": source.metric.unit,
        "total": source.total,
        "file": {"path": path, "text": text.origin.value, "package": file["package"], "self": file["self"], "total": file["total"]},
        "lines": lines,
    }
    return json_text(document, indent=1)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 4) if whole else 0.0
