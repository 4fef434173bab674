"""The order in which CUPTI is asked for things: every event in every state."""

from __future__ import annotations

import itertools
import subprocess

import pytest

from built import BUILT

PROGRAM = BUILT / "cuda_life"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"no {PROGRAM}: `make test` builds it")

BEGIN = ("SUBSCRIBE", "ENABLE_ACTIVITY", "START_SAMPLING", "START_WORKER")
END = ("DISABLE_ACTIVITY", "STOP_WORKER", "STOP_SAMPLING", "FLUSH", "UNSUBSCRIBE")
EVENTS = ("START", "YIELD", "REGAIN", "STOP", "EXIT", "FORK_CHILD")

Change = tuple[str, tuple[str, ...]]


@pytest.fixture(scope="module")
def table() -> dict[tuple[str, str], Change]:
    rows = [line.split() for line in subprocess.run([str(PROGRAM)], capture_output=True, text=True, check=True).stdout.splitlines()]
    return {(state, event): (after, tuple(steps)) for state, event, after, *steps in rows}


def test_every_event_in_every_state(table: dict[tuple[str, str], Change]) -> None:
    nothing: tuple[str, ...] = ()
    assert table == {
        ("ABSENT", "START"): ("COLLECTING", BEGIN),
        ("ABSENT", "YIELD"): ("ABSENT", nothing),
        ("ABSENT", "REGAIN"): ("ABSENT", nothing),
        ("ABSENT", "STOP"): ("ABSENT", nothing),
        ("ABSENT", "EXIT"): ("GONE", nothing),
        ("ABSENT", "FORK_CHILD"): ("ABSENT", nothing),
        ("COLLECTING", "START"): ("COLLECTING", nothing),
        ("COLLECTING", "YIELD"): ("ASIDE", END),
        ("COLLECTING", "REGAIN"): ("COLLECTING", nothing),
        ("COLLECTING", "STOP"): ("STOPPED", END),
        ("COLLECTING", "EXIT"): ("GONE", END),
        ("COLLECTING", "FORK_CHILD"): ("GONE", ("FORGET",)),
        ("ASIDE", "START"): ("ASIDE", nothing),
        ("ASIDE", "YIELD"): ("ASIDE", nothing),
        ("ASIDE", "REGAIN"): ("COLLECTING", BEGIN),
        ("ASIDE", "STOP"): ("STOPPED", nothing),
        ("ASIDE", "EXIT"): ("GONE", nothing),
        ("ASIDE", "FORK_CHILD"): ("GONE", ("FORGET",)),
        ("STOPPED", "START"): ("COLLECTING", BEGIN),
        ("STOPPED", "YIELD"): ("STOPPED", nothing),
        ("STOPPED", "REGAIN"): ("STOPPED", nothing),
        ("STOPPED", "STOP"): ("STOPPED", nothing),
        ("STOPPED", "EXIT"): ("GONE", nothing),
        ("STOPPED", "FORK_CHILD"): ("GONE", ("FORGET",)),
        ("GONE", "START"): ("GONE", nothing),
        ("GONE", "YIELD"): ("GONE", nothing),
        ("GONE", "REGAIN"): ("GONE", nothing),
        ("GONE", "STOP"): ("GONE", nothing),
        ("GONE", "EXIT"): ("GONE", nothing),
        ("GONE", "FORK_CHILD"): ("GONE", ("FORGET",)),
    }


def test_any_order_of_events_leads_to_valid_calls_of_cupti(table: dict[tuple[str, str], Change]) -> None:
    """Every history of six events: nothing begins twice or ends without having begun, and all has ended before the subscription does."""
    opposite = {"STOP_WORKER": "START_WORKER", "STOP_SAMPLING": "START_SAMPLING", "DISABLE_ACTIVITY": "ENABLE_ACTIVITY"}
    for history in itertools.product(EVENTS, repeat=6):
        state, on = "ABSENT", set[str]()
        for event in history:
            state, steps = table[state, event]
            for step in steps:
                if step in BEGIN:
                    assert step not in on
                    assert step == "SUBSCRIBE" or "SUBSCRIBE" in on
                    on.add(step)
                elif step in opposite:
                    on.remove(opposite[step])
                elif step == "FLUSH":
                    assert on == {"SUBSCRIBE"}, "records may come from activity that is still on"
                elif step == "UNSUBSCRIBE":
                    on.remove("SUBSCRIBE")
                    assert not on
                elif step == "FORGET":
                    on.clear()
            assert on == (set(BEGIN) if state == "COLLECTING" else set())
