"""JSON that is safe on a terminal (its names may come from a stranger), and the versions of the documents that commands write."""

from __future__ import annotations

import json
import re

from .errors import MOVES_THE_CURSOR

SCHEMAS = {
    **dict.fromkeys(
        ("record", "demo", "doctor", "open", "flame", "annotate", "diff", "gate", "tally", "ranks", "intra", "merge", "dump", "push"), 1
    ),
    **dict.fromkeys(("findings", "top"), 2),
    **dict.fromkeys(("report", "timeline", "import", "export", "completion", "stats", "version", "ps"), 1),
}
"""The documents by command, each with its version. It rises when a key is removed, renamed or gets another meaning."""


def schema(name: str) -> str:
    """The value of `schema`, the first key of a document."""
    return f"aiflame.{name}/{SCHEMAS[name]}"


def json_text(value: object, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """JSON in which readable text stays; control characters, and those that change the direction of writing, are escaped. A reader of JSON
    gets every text unchanged."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return re.sub(MOVES_THE_CURSOR, lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)
