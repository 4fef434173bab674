"""JSON that a terminal shows as it is: names in it may be a stranger's."""

from __future__ import annotations

import json
import re

from .errors import MOVES_THE_CURSOR


def json_text(value: object, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """Readable text beyond ASCII stays; control characters, and those that turn the direction of writing, are escaped. A reader of JSON
    gets every text as it was."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return re.sub(MOVES_THE_CURSOR, lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)
