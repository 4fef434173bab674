"""Prints the report's module of kinds of frames and slices:
`python scripts/web_kinds.py > src/aiflame/render/web/kinds.js`. tests/unit/render/test_web_kinds.py compares."""

from __future__ import annotations

import json
from enum import IntEnum

from aiflame.attribute.timeline.tables import SliceKind
from aiflame.exchange.collapsed import MARKS
from aiflame.profile.schema.kinds import Kind
from aiflame.render.colors import TONES


def main() -> None:
    print("// Written by scripts/web_kinds.py: a change by hand is lost.\n")
    _numbers("KIND", Kind, "What a frame is, as profile/schema/kinds.py numbers it.")
    _numbers("SLICE", SliceKind, "What a slice of the timeline is, as attribute/timeline/tables.py numbers it.")
    print("/** Kinds from what contains to what is contained, as render/colors.py lists them. */")
    print("export const KIND_ORDER = Object.freeze([")
    for kind in TONES:
        print(f"  KIND.{kind.name},")
    print("]);\n")
    print("/** What collapsed stacks have behind the names of these kinds, as exchange/collapsed.py writes them. */")
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
