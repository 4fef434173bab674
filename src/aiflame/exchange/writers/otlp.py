"""OpenTelemetry's profiles, a message `ProfilesData` of opentelemetry.proto.profiles.v1development, as the package opentelemetry-proto
1.45.2 has it: one profile for each metric, their stacks in one dictionary. https://github.com/open-telemetry/opentelemetry-proto"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import BinaryIO

from aiflame.attribute.arrays.wire import fixed, number, packed, text
from aiflame.attribute.tree import Metric
from aiflame.exchange.writers.facts import Facts
from aiflame.exchange.writers.labelled import Labelled
from aiflame.exchange.writers.strings import Strings
from aiflame.version import VERSION

UNITS = {"ns": "ns", "samples": "{sample}", "launches": "{launch}", "bytes": "By", "µJ": "uJ"}
"""As UCUM writes them, which OpenTelemetry asks for."""
KEYS = {"process": "process.title", "thread": "thread.name"}
"""Labels that OpenTelemetry has a name for; the others are `aiflame.step` …"""


class _Data:
    """profiles.proto, messages ProfilesData, ResourceProfiles, ScopeProfiles"""

    RESOURCE_PROFILES, DICTIONARY = 1, 2
    RESOURCE, SCOPE_PROFILES = 1, 2
    SCOPE, PROFILES = 1, 2


class _Dictionary:
    """message ProfilesDictionary"""

    MAPPING, LOCATION, FUNCTION, LINK, STRING, ATTRIBUTE, STACK = 1, 2, 3, 4, 5, 6, 7


class _Profile:
    """message Profile"""

    SAMPLE_TYPE, SAMPLE, TIME, DURATION, PERIOD_TYPE, PERIOD, ID = 1, 2, 3, 4, 5, 6, 7


class _Field:
    """The other messages."""

    SAMPLE_STACK, SAMPLE_ATTRIBUTES, SAMPLE_VALUES = 1, 2, 4
    MAPPING_FILE = 4
    LOCATION_MAPPING, LOCATION_LINE = 1, 3
    LINE_FUNCTION, LINE_NUMBER = 1, 2
    FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE, FUNCTION_LINE = 1, 2, 3, 4
    ATTRIBUTE_KEY, ATTRIBUTE_VALUE = 1, 2
    ANY_TEXT, ANY_NUMBER = 1, 3
    KEY, VALUE = 1, 2


def write(of: Labelled, facts: Facts, metric: str, file: BinaryIO, resource: Mapping[str, str | int] | None = None) -> None:
    """`metric` comes first. `resource`: the facts about the whole, where others than those of a file are wanted."""
    strings, attributes = Strings(), _Attributes()
    order = sorted(range(len(of.metrics)), key=lambda at: of.metrics[at].name != metric)
    stacks: dict[int, int] = {0: 0}
    profiles = [_profile(of, of.metrics[at], facts, strings, attributes, stacks) for at in order]
    said = _resource(facts) if resource is None else resource
    described = text(_Data.RESOURCE, b"".join(text(1, _key_value(key, value)) for key, value in said.items() if value != ""))
    scope = text(_Data.SCOPE, text(1, "aiflame") + text(2, VERSION))
    scoped = text(_Data.SCOPE_PROFILES, scope + b"".join(text(_Data.PROFILES, profile) for profile in profiles))
    file.write(text(_Data.RESOURCE_PROFILES, described + scoped))
    file.write(text(_Data.DICTIONARY, _dictionary(of, strings, attributes, stacks)))


def _resource(facts: Facts) -> dict[str, str]:
    return {
        "host.name": facts.host,
        "process.command_line": " ".join(facts.command),
        "aiflame.notes": "\n".join(facts.notes),
        "telemetry.sdk.name": "aiflame",
        "telemetry.sdk.version": VERSION,
    }


class _Attributes:
    """The rows of the dictionary's attributes; row 0 means none."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str | int], int] = {}

    def row(self, label: str, value: str | int) -> int:
        return self._rows.setdefault((label, value), len(self._rows) + 1)

    def messages(self, strings: Strings) -> list[bytes]:
        rows = [b""]
        for label, value in self._rows:
            key = number(_Field.ATTRIBUTE_KEY, strings.row(KEYS.get(label, f"aiflame.{label}")))
            rows.append(key + text(_Field.ATTRIBUTE_VALUE, _any_value(value)))
        return rows


def _profile(of: Labelled, metric: Metric, facts: Facts, strings: Strings, attributes: _Attributes, stacks: dict[int, int]) -> bytes:
    names = of.labels
    rows = of.samples.filter(of.samples[metric.name] != 0).select("stack", metric.name, *names)
    parts = [text(_Profile.SAMPLE_TYPE, number(1, strings.row(metric.name)) + number(2, strings.row(UNITS.get(metric.unit, metric.unit))))]
    for node, value, *labels in rows.iter_rows():
        row = stacks.setdefault(node, len(stacks))
        own = [attributes.row(name, label) for name, label in zip(names, labels, strict=True) if label is not None]
        body = number(_Field.SAMPLE_STACK, row) + packed(_Field.SAMPLE_VALUES, [value])
        parts.append(text(_Profile.SAMPLE, (packed(_Field.SAMPLE_ATTRIBUTES, own) if own else b"") + body))
    parts.append(fixed(_Profile.TIME, facts.began_ns) + number(_Profile.DURATION, facts.took_ns))
    parts.append(text(_Profile.ID, sha256(repr((facts, metric.name)).encode()).digest()[:16]))
    return b"".join(parts)


def _dictionary(of: Labelled, strings: Strings, attributes: _Attributes, stacks: dict[int, int]) -> bytes:
    """Row 0 of each table is empty, as the protocol asks."""
    mappings: dict[str, int] = {"": 0}
    functions: dict[tuple[str, str, str, int], int] = {("", "", "", 0): 0}
    tables: dict[int, list[bytes]] = {_Dictionary.LOCATION: [b""]}
    for name, full_name, path, begin, line, module in of.places.select("name", "full_name", "file", "begin", "line", "module").rows():
        mapping = mappings.setdefault(module, len(mappings))
        function = functions.setdefault((name, full_name, path, begin), len(functions))
        inner = text(_Field.LOCATION_LINE, number(_Field.LINE_FUNCTION, function) + number(_Field.LINE_NUMBER, line))
        tables[_Dictionary.LOCATION].append((number(_Field.LOCATION_MAPPING, mapping) if mapping else b"") + inner)
    tables[_Dictionary.MAPPING] = [number(_Field.MAPPING_FILE, strings.row(module)) if module else b"" for module in mappings]
    tables[_Dictionary.FUNCTION] = [
        number(_Field.FUNCTION_NAME, strings.row(name))
        + number(_Field.FUNCTION_SYSTEM_NAME, strings.row(full_name))
        + number(_Field.FUNCTION_FILE, strings.row(path))
        + number(_Field.FUNCTION_LINE, begin)
        if name
        else b""
        for name, full_name, path, begin in functions
    ]
    tables[_Dictionary.LINK] = [b""]
    tables[_Dictionary.ATTRIBUTE] = attributes.messages(strings)
    tables[_Dictionary.STACK] = [packed(1, (row + 1 for row in of.stack(node))) if node else b"" for node in stacks]
    parts = [text(field, row) for field, rows in sorted(tables.items()) for row in rows]
    return b"".join([*parts, *(text(_Dictionary.STRING, one) for one in strings.all())])


def _key_value(key: str, value: str | int) -> bytes:
    return text(_Field.KEY, key) + text(_Field.VALUE, _any_value(value))


def _any_value(value: str | int) -> bytes:
    return number(_Field.ANY_NUMBER, value) if isinstance(value, int) else text(_Field.ANY_TEXT, value)
