"""Reads a receiver's answer to OTLP, the message `ExportProfilesServiceResponse`, which lists rejected profiles. Standard library alone.

https://github.com/open-telemetry/opentelemetry-proto, collector/profiles/v1development/profiles_service.proto"""

from __future__ import annotations

from collections.abc import Iterator

_PARTIAL_SUCCESS, _REJECTED, _MESSAGE = 1, 1, 2
_LONGEST = 300


def rejected(answer: bytes) -> str:
    """The number of rejected profiles and the reason; "" if there are none."""
    try:
        for field, partial in _fields(answer):
            if field == _PARTIAL_SUCCESS and isinstance(partial, bytes):
                inner = dict(_fields(partial))
                count, message = inner.get(_REJECTED, 0), inner.get(_MESSAGE, b"")
                if isinstance(count, int) and isinstance(message, bytes) and count:
                    return f"{count} profiles rejected{': ' if message else ''}{message.decode('utf-8', 'replace')[:_LONGEST]}"
    except ValueError:
        pass  # JSON, or a text of a proxy's
    return ""


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        if key & 7 == 0:
            value, at = _number(message, at)
            yield key >> 3, value
        elif key & 7 == 2:
            length, at = _number(message, at)
            if at + length > len(message):
                raise ValueError("the message is not whole")
            yield key >> 3, message[at : at + length]
            at += length
        else:
            raise ValueError("no field of this message")


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
    raise ValueError("no number")
