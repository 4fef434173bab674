"""Requests to keep the window: a file for each, which `aiflame keep` or the program itself puts into `requests/` of the ring."""

from __future__ import annotations

import contextlib
import json

from aiflame.errors import AiflameError, harmless
from aiflame.profile.folder.door import Folder
from aiflame.recorder.ring.snapshot import REQUESTS
from aiflame.values import dataclass

ASKED, ANSWERED = ".asked", ".answered"
ASKED_FOR, SEEN_INSIDE = "asked", ("exception", "out-of-memory")
_DAMAGED = (OSError, AiflameError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
_LONGEST = 4096
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Request:
    kind: str
    """`asked`, or the event that the program has seen itself"""
    name: str
    """of its file, without ending"""
    reason: str
    time_ns: int


def take(ring: Folder) -> list[Request]:
    """The new requests, oldest first. Each is returned once."""
    folder = ring.folder(REQUESTS)
    new = []
    for name in folder.names():
        if name.endswith(ASKED):
            with contextlib.suppress(*_DAMAGED):
                fields = json.loads(folder.read(name, limit=_LONGEST) or b"")
                reason = harmless(str(fields.get("reason") or "asked"))[:_LONGEST_REASON]
                kind = str(fields.get("kind") or ASKED_FOR)
                new.append(Request(kind if kind in SEEN_INSIDE else ASKED_FOR, name.removesuffix(ASKED), reason, int(fields["time_ns"])))
            with contextlib.suppress(OSError):
                folder.remove(name)
    return sorted(new, key=lambda request: request.time_ns)


def answer(ring: Folder, name: str, profile: str) -> None:
    with contextlib.suppress(OSError):
        ring.folder(REQUESTS).put(f"{name}{ANSWERED}", profile.encode())


def ask(ring: Folder, reason: str, time_ns: int, name: str) -> None:
    """OSError if the recording is no ring, or cannot be written to."""
    ring.folder(REQUESTS).put(f"{name}{ASKED}", json.dumps({"reason": reason, "time_ns": time_ns}).encode())


def take_answer(ring: Folder, name: str) -> str | None:
    """The profile that was made for a request; None: not yet."""
    folder = ring.folder(REQUESTS)
    data = folder.read(f"{name}{ANSWERED}", limit=_LONGEST)
    if data is None:
        return None
    folder.remove(f"{name}{ANSWERED}")
    return data.decode("utf-8", "replace")
