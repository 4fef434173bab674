"""Prints the report's module of kinds of frames and slices:
`python scripts/web_kinds.py > src/aiflame/render/web/kinds.js`. tests/unit/render/test_web_kinds.py compares."""

from __future__ import annotations

import json
from enum import IntEnum

from aiflame.attribute.timeline.tables import SliceKind
from aiflame.profile.schema.kinds import MARKS, Kind
from aiflame.render.colors import TONES


def main() -> None:
    print("// Written by scripts/web_kinds.py: a change by hand is lost.\n")
    _numbers("KIND", Kind, "Kinds of frames, numbered as in profile/schema/kinds.py.")
    _numbers("SLICE", SliceKind, "Kinds of the timeline's slices, numbered as in attribute/timeline/tables.py.")
    print("/** Kinds from the outermost to the innermost, as render/colors.py lists them. */")
    print("export const KIND_ORDER = Object.freeze([")
    for kind in TONES:
        print(f"  KIND.{kind.name},")
    print("]);\n")
    print("/** Suffixes of the names of these kinds in collapsed stacks, as exchange/writers/collapsed.py writes them. */")
    print("export const COLLAPSED_MARKS = Object.freeze({")
    for kind, mark in MARKS.items():
        print(f"  [KIND.{kind.name}]: {json.dumps(mark)},")
    print("});")


def _numbers(name: str, kinds: type[IntEnum], comment: str) -> None:
    print(f"/** {comment} */")
    print(f"export const {name} = Object.freeze({{")
    for kind in kinds:
        print(f"  {kind.name}: {int(kind)},")
    print("});\n")


if __name__ == "__main__":
    main()
