"""The time of one rank, as a row of `aiflame ranks`."""

from __future__ import annotations

from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A rank, from its first work to its last; `compute`, `exposed`, `copies` and `idle` add up to the whole."""

    rank: int
    host: str
    rule: str
    """The source of its computing time: `devices`, `samples`, `calls`."""
    steps: int
    whole_ns: int
    compute_ns: int
    communication_ns: int
    exposed_ns: int
    """Communication that computing did not hide."""
    copies_ns: int
    idle_ns: int
    waited_ns: int
    """Waiting for ranks that came later to collectives; at most `exposed_ns`."""
    last: int
    """How often it came last because of its own work."""
    lost_ns: int
    """The total delay at these collectives."""

    @property
    def overlap(self) -> float | None:
        """The share of its communication that was hidden behind computing."""
        return 1 - self.exposed_ns / self.communication_ns if self.communication_ns else None
