"""`make guests`: runs the guests alone and recorded, says who was changed, and writes the table of docs/guests.md.

    matrix.py [--only WORD ...] [--quick] [--list] [--keep DIR] [--write docs/guests.md]

Results are kept in a file, so that a table can be written of several runs; a guest that is run again replaces its row.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import table
from all_guests import GUESTS
from compare import changes
from guest import REPOSITORY, Guest, NotMadeError
from observe import ALONE, FAST, WAYS, Observation, Way, observe

RESULTS = REPOSITORY / "build" / "guests.json"


@dataclass(frozen=True, slots=True)
class Result:
    """A guest's row: a cell for each way, and the differences."""

    name: str
    cells: tuple[str, ...]
    changed: tuple[str, ...]


def main() -> int:
    arguments = _arguments()
    chosen = [guest for guest in GUESTS if not arguments.only or any(word in guest.name for word in arguments.only)]
    if arguments.list:
        print(*(guest.name for guest in chosen), sep="\n")
        return 0
    results = {} if arguments.quick or not arguments.only else _read()
    harmed = 0
    for guest in chosen:
        result = run(guest, (ALONE, FAST) if arguments.quick else WAYS, arguments.keep)
        harmed += bool(result.changed)
        results[guest.name] = result
        if not arguments.quick:
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps([(row.name, row.cells, row.changed) for row in results.values()], indent=1))
        print(f"{guest.name}: {' · '.join(result.cells)}", *(f"    {line}" for line in result.changed), sep="\n", flush=True)
    if arguments.write:
        order = {guest.name: number for number, guest in enumerate(GUESTS)}
        rows = sorted(results.values(), key=lambda row: order.get(row.name, len(order)))
        table.write(arguments.write, [(row.name, *row.cells) for row in rows])
    print(f"{len(chosen) - harmed} passed, {harmed} failed")
    return 1 if harmed else 0


def run(guest: Guest, ways: tuple[Way, ...] = WAYS, keep: Path | None = None) -> Result:
    if reason := guest.missing():
        return Result(guest.name, (f"not available: {reason}", "", ""), ())
    workplace = (keep or Path(tempfile.gettempdir())) / f"guest-{re.sub(r'[^A-Za-z0-9]+', '-', guest.name)}-{time.time_ns()}"
    workplace.mkdir(parents=True)
    try:
        observations: list[Observation] = [observe(guest, way, workplace) for way in ways]
    except NotMadeError as error:
        return Result(guest.name, (f"not available: {error}", "", ""), ())
    finally:
        if keep is None:
            shutil.rmtree(workplace, ignore_errors=True)
    alone, *others = observations
    changed = [(way, changes(guest, alone, other)) for way, other in zip(ways[1:], others, strict=True)]
    cells = [
        table.alone_cell(alone),
        *(table.recorded_cell(alone, other, bool(lines)) for other, (_, lines) in zip(others, changed, strict=True)),
    ]
    for way, other in zip(ways, observations, strict=True):
        for note in other.recording.notes if other.recording else ():
            print(f"    {guest.name}, {way.name}, note: {note}", flush=True)
    return Result(guest.name, tuple(cells), tuple(f"{way.name}: {line}" for way, lines in changed for line in lines))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="guests whose names contain one of these")
    parser.add_argument("--quick", action="store_true", help="alone and at the highest rate only; no table")
    parser.add_argument("--list", action="store_true", help="name the guests")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave outputs and profiles there")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    return parser.parse_args()


def _read() -> dict[str, Result]:
    try:
        return {name: Result(name, tuple(cells), tuple(changed)) for name, cells, changed in json.loads(RESULTS.read_text())}
    except (OSError, ValueError):
        return {}


if __name__ == "__main__":
    sys.exit(main())
