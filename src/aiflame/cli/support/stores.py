"""Arguments that name a store of `aiflame agent`, or a range of one. Standard library alone."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from aiflame.cli.support.parser import Parser, UsageError
from aiflame.profile.folder.home import home


def default_store() -> Path:
    named = os.environ.get("XDG_STATE_HOME", "")
    here = home()
    if not named.startswith("/") and here is None:
        raise UsageError("this user has no home for a store: name a folder for it")
    return (Path(named) if named.startswith("/") or here is None else here / ".local/state") / "aiflame" / "store"


def add_range(parser: Parser) -> None:
    parser.add_argument("--store", type=Path, metavar="DIR", help="show a range of a store of aiflame agent, in place of a profile")
    parser.add_argument(
        "--from", dest="begin", default="", metavar="TIME", help="its begin: 14:00, yesterday 14:00, 2026-11-27, -2h (default: -1h)"
    )
    parser.add_argument("--to", dest="end", default="", metavar="TIME", help="its end (default: now; of a begin by the clock, an hour)")
    parser.add_argument("--only", default="", metavar="FILTER", help="only some of its processes: command=REGEX,rank=0,version=ab12")


def path_of_range(options: Namespace) -> Path | None:
    """The path that names the range, or the profile that the arguments name."""
    if options.store is None:
        if options.begin or options.end or options.only:
            raise UsageError("--from, --to and --only choose from a store: name it with --store DIR")
        return options.profile  # type: ignore[no-any-return]
    if options.profile is not None:
        raise UsageError(f"{options.profile} and --store: show one of them")
    when = (options.begin or "-1h") + (f"..{options.end}" if options.end else "")
    return Path(f"{options.store}@{','.join(filter(None, (when, options.only)))}")
