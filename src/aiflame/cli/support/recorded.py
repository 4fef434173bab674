"""The end of `aiflame record`: prints the summary and starts the sealer. Imports only the standard library."""

from __future__ import annotations

import contextlib
import signal

from aiflame.cli.support.say import say
from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.spool.glance import Glance, glance
from aiflame.recorder import ProfileLocation, Recording
from aiflame.recorder.hand_over import can_seal, start_sealer
from aiflame.recorder.supervise import signals_free

FINDINGS = 3


def summarize(recording: Recording, seconds: float, *, quiet: bool, as_json: bool = False) -> Glance:
    """Prints notes and the summary, without sealing. Errors here are ignored: the program's own status matters more."""
    seen = Glance()
    with contextlib.suppress(OSError, AiflameError):
        seen = glance(Folder.open(recording.profile))
    for note in seen.notes:
        recording.place.tell(note)
    if recording.living:
        recording.place.tell(_of_living(recording.living))
    if quiet or not recording.place.speaks or (recording.place.is_gone() and not as_json):
        return seen
    if as_json:
        _print_json(recording, seconds, seen)
        return seen
    processes = f"{seen.processes:,} process{'es' if seen.processes != 1 else ''}"
    samples = f"{'' if seen.all else 'more than '}{seen.samples:,} samples"
    say(
        f"aiflame: {_of_ranks(recording.place)}{seconds:.1f} s, {processes}, {samples} -> {recording.place.whole}"
        f" ({recording.bytes / 1e6:.1f} MB recorded); next: aiflame open, aiflame top",
        err=True,
    )
    return seen


def _print_json(recording: Recording, seconds: float, seen: Glance) -> None:
    """Prints the document as one line on stderr."""
    from aiflame.json_text import json_text, schema

    rank = recording.place.rank
    facts = {
        "schema": schema("record"),
        "profile": str(recording.place.whole),
        "rank": rank.rank if rank is not None else None,
        "status": recording.status,
        "seconds": round(seconds, 3),
        "processes": seen.processes,
        "samples": seen.samples,
        "counted_all": seen.all,
        "bytes": recording.bytes,
        "living": recording.living,
        "refusals": seen.refusals,
        "notes": list(seen.notes),
    }
    say(json_text(facts), err=True)


def _of_living(pids: list[int]) -> str:
    some = ", ".join(map(str, pids[:4])) + (" …" if len(pids) > 4 else "")
    one = len(pids) == 1
    return (
        f"{len(pids)} process{'' if one else 'es'} of the program ({some}) go{'es' if one else ''} on and {'is' if one else 'are'} still"
        " being recorded: the profile can be opened meanwhile (--wait-daemons waits for the end)"
    )


def hand_over(recording: Recording, push: str = "") -> bool:
    """Starts a background process that seals, and puts the profile into the queue `push`, so that the prompt is back at once. If that
    fails, returns False, and the next command seals."""
    if not can_seal():
        recording.place.tell(f"{recording.profile} is recorded; open it where polars is installed to seal it")
        return False
    if start_sealer(recording.profile, recording.held, push):
        return True
    if push:
        recording.place.tell(f"nothing is sent, because no process could be started: aiflame push {recording.profile} URL sends it")
    return False


def say_sent(recording: Recording, url: str) -> None:
    """Says where the profile goes. The URL's path and query may be nobody's business."""
    from urllib.parse import urlsplit

    recording.place.tell(f"it is sent to {urlsplit(url).netloc} when it is sealed; aiflame push --queue --list says what waits")


def show_findings(recording: Recording, *, as_json: bool = False) -> None:
    """Seals the profile here, and prints its first findings on stderr. The program's own status matters more than any error here."""
    place = recording.place
    if place.rank is not None:
        place.tell(f"findings are those of all ranks: aiflame findings {place.whole}, when all have ended")
        hand_over(recording)
        return
    try:
        from aiflame.cli.findings import print_first
        from aiflame.resolve.files import held_files

        held_files.take({name: str(descriptor) for name, descriptor in recording.held.items()})
        with signals_free():
            print_first(recording.profile, FINDINGS, as_json=as_json)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Polars has threads that a second one would reach
        hand_over(recording)
    except Exception as error:  # the next command that opens the profile reports it again
        place.tell(f"no findings: {error}")


def say_refusal(recording: Recording, *, seal: bool) -> bool:
    """Prints the largest holder of memory when an allocation failed. Seals the profile for that, and returns whether it did: one rank of
    several does not, nor any with `seal` False."""
    place = recording.place
    if not seal or place.rank is not None:
        place.tell(f"memory ran out: aiflame findings {place.whole} names the largest holder")
        return False
    try:
        from aiflame.cli.findings import refusal
        from aiflame.resolve.files import held_files

        held_files.take({name: str(descriptor) for name, descriptor in recording.held.items()})
        with signals_free():
            sentence = refusal(recording.profile)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Polars has threads that a second one would reach
        return False
    except Exception as error:  # the next command that opens the profile reports it again
        place.tell(f"memory ran out, and the profile cannot be read: {error}")
        return False
    if sentence:
        place.tell(f"{sentence}; look: aiflame flame --at oom {place.whole}")
    return True


def _of_ranks(place: ProfileLocation) -> str:
    """In a parallel job, the rank at the beginning of the summary."""
    if place.rank is None:
        return ""
    return f"rank {place.rank.rank}{f' of {place.rank.size}' if place.rank.size else ''}: "
