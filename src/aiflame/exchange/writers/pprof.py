"""pprof's format (https://github.com/google/pprof, proto/profile.proto), packed with gzip: every metric is a type of sample."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import BinaryIO

from aiflame.attribute.arrays.wire import number, packed, text
from aiflame.exchange.writers.facts import Facts
from aiflame.exchange.writers.labelled import NUMBERS, Labelled
from aiflame.exchange.writers.strings import Strings

UNITS = {"ns": "nanoseconds", "samples": "count", "launches": "count", "bytes": "bytes", "µJ": "microjoules"}
"""pprof shows these in larger units where they are many; others as they are."""
_WRITE_SAMPLES = 5_000


class _Profile:
    """profile.proto, message Profile"""

    SAMPLE_TYPE, SAMPLE, MAPPING, LOCATION, FUNCTION, STRING = 1, 2, 3, 4, 5, 6
    TIME_NS, DURATION_NS, PERIOD_TYPE, PERIOD, COMMENT, DEFAULT_SAMPLE_TYPE = 9, 10, 11, 12, 13, 14


class _Field:
    """The other messages."""

    VALUE_TYPE, VALUE_UNIT = 1, 2
    SAMPLE_LOCATIONS, SAMPLE_VALUES, SAMPLE_LABEL = 1, 2, 3
    LABEL_KEY, LABEL_TEXT, LABEL_NUMBER = 1, 2, 3
    MAPPING_ID, MAPPING_FILE, MAPPING_HAS = 1, 5, (7, 8, 9)
    LOCATION_ID, LOCATION_MAPPING, LOCATION_LINE = 1, 2, 4
    LINE_FUNCTION, LINE_NUMBER = 1, 2
    FUNCTION_ID, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE, FUNCTION_LINE = 1, 2, 3, 4, 5


def write(of: Labelled, facts: Facts, metric: str, file: BinaryIO, period_ns: int = 0) -> None:
    """`metric`: the one that a viewer shows first. `period_ns`: CPU time between two samples, for servers that merge profiles and need
    it; 0: none is written."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as zipped:
        strings = Strings()
        for one in of.metrics:
            zipped.write(
                _message(_Profile.SAMPLE_TYPE, number(1, strings.row(one.name)), number(2, strings.row(UNITS.get(one.unit, one.unit))))
            )
        for samples in _samples(of, strings):
            zipped.write(samples)
        zipped.write(_places(of, facts.command[0] if facts.command else "program", strings))
        for comment in facts.comments:
            zipped.write(number(_Profile.COMMENT, strings.row(comment)))
        zipped.write(number(_Profile.TIME_NS, facts.began_ns) + number(_Profile.DURATION_NS, facts.took_ns))
        if period_ns:
            kind = number(_Field.VALUE_TYPE, strings.row("cpu-time")) + number(_Field.VALUE_UNIT, strings.row(UNITS["ns"]))
            zipped.write(text(_Profile.PERIOD_TYPE, kind) + number(_Profile.PERIOD, period_ns))
        zipped.write(number(_Profile.DEFAULT_SAMPLE_TYPE, strings.row(metric)))
        for one_text in strings.all():
            zipped.write(text(_Profile.STRING, one_text))


def _samples(of: Labelled, strings: Strings) -> Iterator[bytes]:
    names, metrics = of.labels, [metric.name for metric in of.metrics]
    keys = {name: number(_Field.LABEL_KEY, strings.row(name)) for name in names}
    encoded: dict[tuple[str, object], bytes] = {}
    waiting: list[bytes] = []
    labels_of, values_of = of.samples.select(names).iter_rows(), of.samples.select(metrics).iter_rows()
    for node, labels, values in zip(of.samples["stack"].to_list(), labels_of if names else ((),) * len(of.samples), values_of, strict=True):
        body = packed(_Field.SAMPLE_LOCATIONS, (row + 1 for row in of.stack(node))) + packed(_Field.SAMPLE_VALUES, values)
        for name, value in zip(names, labels, strict=True):
            if value is None:
                continue
            label = encoded.get((name, value))
            if label is None:
                held = number(_Field.LABEL_NUMBER, value) if name in NUMBERS else number(_Field.LABEL_TEXT, strings.row(value))
                label = encoded[name, value] = text(_Field.SAMPLE_LABEL, keys[name] + held)
            body += label
        waiting.append(text(_Profile.SAMPLE, body))
        if len(waiting) == _WRITE_SAMPLES:
            yield b"".join(waiting)
            waiting.clear()
    yield b"".join(waiting)


def _places(of: Labelled, program: str, strings: Strings) -> bytes:
    """Functions, locations and the modules that they lie in."""
    # The first module is the program itself, to pprof; a place whose module is not known has none.
    mappings = {program: 1}
    functions: dict[tuple[str, str, str, int], int] = {}
    parts = []
    for row, (name, full_name, path, begin, line, module) in enumerate(
        of.places.select("name", "full_name", "file", "begin", "line", "module").rows(), 1
    ):
        mapping = mappings.setdefault(module, len(mappings) + 1) if module else 0
        function = functions.setdefault((name, full_name, path, begin), len(functions) + 1)
        inner = text(_Field.LOCATION_LINE, number(_Field.LINE_FUNCTION, function) + number(_Field.LINE_NUMBER, line))
        lies_in = number(_Field.LOCATION_MAPPING, mapping)
        parts.append(_message(_Profile.LOCATION, number(_Field.LOCATION_ID, row), lies_in, inner))
    for (name, full_name, path, begin), row in functions.items():
        parts.append(
            _message(
                _Profile.FUNCTION,
                number(_Field.FUNCTION_ID, row),
                number(_Field.FUNCTION_NAME, strings.row(name)),
                number(_Field.FUNCTION_SYSTEM_NAME, strings.row(full_name or name)),
                number(_Field.FUNCTION_FILE, strings.row(path)),
                number(_Field.FUNCTION_LINE, begin),
            )
        )
    # A viewer looks for names itself, unless a module says that they are here.
    named = b"".join(number(field, 1) for field in _Field.MAPPING_HAS)
    for module, row in mappings.items():
        parts.append(_message(_Profile.MAPPING, number(_Field.MAPPING_ID, row), number(_Field.MAPPING_FILE, strings.row(module)), named))
    return b"".join(parts)


def _message(field: int, *parts: bytes) -> bytes:
    return text(field, b"".join(parts))
