"""Perfetto's traces as a profile: slices of threads become calls, those of GPUs kernels and copies, callstacks samples."""

from __future__ import annotations

from collections.abc import Callable

from aiflame.exchange.readers.devices.writing import write
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.perfetto import callstacks, gpu_counters, own, render_stages
from aiflame.exchange.readers.perfetto.contents import Contents
from aiflame.exchange.readers.perfetto.many_messages import Batch, each_field
from aiflame.exchange.readers.perfetto.meaning import Meaning
from aiflame.exchange.readers.perfetto.packets import outline
from aiflame.exchange.readers.perfetto.slices import slices_of
from aiflame.exchange.readers.protobuf import DamagedError
from aiflame.exchange.readers.source import Source

_NUMBERS = {3, 8, 10, 13, 41, 42, 58, 79, 87, 98}
"""Fields of packets that are numbers; all others are messages."""
_MARKS = {1, 6, 8, 10, 11, 33, 36, 50, 60, 89}
"""Fields of which a trace has one early."""
_LOOKED_AT = 16


def is_one(head: bytes) -> bool:
    """It begins with packets, whose fields are numbers and messages as Perfetto has them."""
    if not head.startswith(b"\x0a"):
        return False
    places = outline(head)
    spans = [*places.packets[:_LOOKED_AT], *((begin, end) for _, begin, end in places.packed[:1])]
    batch, marked = Batch(head), False
    try:
        for begin, end in spans:
            for number, _, stop in each_field(batch, begin, end):
                if (number in _NUMBERS) != (stop < 0):
                    return False
                marked |= number in _MARKS
    except DamagedError:
        return False
    return marked and (not places.broken or len(spans) > 2)


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    contents = Contents.read(source, making, lambda share: progress(0.5 * share))
    meaning = Meaning(contents, making)
    if contents.events.count:
        slices = slices_of(contents.event_table())
        making.unused.update(slices.others)
        if slices.lost_ends:
            making.note(f"{slices.lost_ends:,} slices of the trace have no begin: they began before it, and are missing")
        progress(0.7)
        if own.is_own(contents):
            own.add(meaning, slices)
        else:
            meaning.add(slices)
    render_stages.add(meaning)
    gpu_counters.add(meaning)
    callstacks.add(meaning)
    if contents.damaged:
        making.note(f"{contents.damaged:,} messages of the trace are damaged, and missing here")
    progress(0.8)
    trace = meaning.finish()
    making.lacks = ("stall reasons of kernels", *(() if trace.series else ("counters of devices",)))
    write(trace, making)
