"""A finding of a checkup: a subject, its state, and a command that repairs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(str, Enum):
    WORKS = "works"
    LIMITED = "limited"
    ABSENT = "absent"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    subject: str
    state: State
    text: str
    mend: str = ""
