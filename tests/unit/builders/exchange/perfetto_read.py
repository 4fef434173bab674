"""A Perfetto trace as a profile, and the time that each of its functions spent itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import aiflame
from aiflame.analyze.top import top
from aiflame.attribute.trees.build import tree
from aiflame.exchange.readers.formats import format_of
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.source import Source
from aiflame.profile.folder.door import Folder
from aiflame.profile.tables.interface import Tables


def read(data: bytes, folder: Path) -> tuple[Tables, Making]:
    folder.mkdir(exist_ok=True)
    file = folder / "trace"
    file.write_bytes(data)
    source = Source.open(file)
    of = format_of(source.head)
    assert of is not None and of.name == "Perfetto"
    making = Making(Folder.new(folder / "made"))
    of.read(source, making, lambda share: None)
    making.finish(of.name, ("trace",), "0")
    return aiflame.open(folder / "made").store, making


def own_time(profile: Tables, metric: str = "wall-time") -> dict[str, int]:
    times: Counter[str] = Counter()
    for row in top(tree(profile, metric, "code"), "function", metric).to_dicts():
        times[row["name"]] += row["self"]
    return {name: time for name, time in times.items() if time}
