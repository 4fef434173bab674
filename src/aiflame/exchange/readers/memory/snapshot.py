"""Memory snapshots of torch: `torch.cuda.memory._dump_snapshot()`, a pickle with the allocator's blocks and the trace of its last actions.

A device is a process of the profile. A replay of the trace, from the blocks that were live when it begins, finds those of the peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import NamedFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.memory.frames import Stacks
from aiflame.exchange.readers.memory.kinds import size_text
from aiflame.exchange.readers.memory.pickles import NotPlainError, looks_like_pickle, plain_data
from aiflame.exchange.readers.memory.replay import ALLOC, BEFORE, FREED, NEVER, Block, Lives, replay, whole
from aiflame.exchange.readers.memory.segments import rounded
from aiflame.exchange.readers.memory.segments import segments as segments_of
from aiflame.exchange.readers.sampled.samples import NO_TIME, Sampled
from aiflame.exchange.readers.source import Source
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

_MOST = 512 << 20
_MOST_DEVICES = 1024
_YEAR_2001_US = 10**15
_WORDS = (b"device_traces", b"segment_type")
OUT_OF_MEMORY = "oom"
_BEFORE = NamedFrame("[allocated before the trace]", Kind.UNATTRIBUTED)
_NO_STACK = NamedFrame("[allocated before stacks were recorded]", Kind.UNATTRIBUTED)
Row = Mapping[str, Any]


def is_one(head: bytes) -> bool:
    return looks_like_pickle(head) and any(word in head for word in _WORDS)


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    data = source.whole(_MOST)
    try:
        content = plain_data(data, lambda share: progress(0.6 * share))
    except NotPlainError as error:
        raise AiflameError(f"cannot read {source.path}: {error}") from None
    if isinstance(content, list):  # torch.cuda.memory_snapshot() alone
        content = {"segments": content}
    if not isinstance(content, dict) or not isinstance(content.get("segments"), list):
        raise AiflameError(f"{source.path} is a pickle, but no memory snapshot of torch: it has no segments")
    _Reading(making).read(content)


@dataclass(slots=True)
class _Reserved:
    """Sums over the segments of a device, in bytes."""

    reserved: int = 0
    live: int = 0
    rounding: int = 0
    unused: int = 0
    pieces: int = 0
    largest: int = 0


class _Reading:
    def __init__(self, making: Making) -> None:
        self.making = making
        self.rows = Sampled(making)

    def read(self, content: Row) -> None:
        traces = [_rows(trace) for trace in _list(content.get("device_traces"))[:_MOST_DEVICES]]
        segments: dict[int, list[Row]] = {}
        for segment in _rows(content["segments"]):
            segments.setdefault(whole(segment.get("device")), []).append(segment)
        used = sorted({number for number, trace in enumerate(traces) if trace} | segments.keys())[:_MOST_DEVICES]
        for device in used:
            self._device(device, traces[device] if device < len(traces) else [], segments.get(device, []))
        first = min((whole(event.get("time_us")) for trace in traces for event in trace), default=0)
        self.making.realtime_ns = first * 1000 if _YEAR_2001_US < first < 1 << 53 else 0
        annotations = _list(content.get("external_annotations"))
        self.making.unused.update({"external annotations": len(annotations)} if annotations else {})
        if not used:
            self.making.note("the snapshot has no memory of any device: was the history of memory recorded, on a machine with a GPU?")
        self.rows.finish()

    def _device(self, device: int, trace: list[Row], segments: list[Row]) -> None:
        name = f"GPU {device}"
        process = self.rows.process(0, name)
        stacks = Stacks(self.rows, process)
        before, no_stack = (self.rows.call(process, -1, frame) for frame in (_BEFORE, _NO_STACK))
        calls = [stacks.call(event.get("frames")) if event.get("action") == ALLOC else -1 for event in trace]
        blocks, reserved = self._blocks(segments, stacks, no_stack)
        lives = replay(trace, calls, blocks)
        moments = [*_moments(trace), NO_TIME]  # event -1: before the trace
        block_bytes = {block.address: block.block_bytes for block in blocks}
        lasting = (column.tolist() for column in (lives.stack, lives.size, lives.address, lives.born, lives.died))
        for call, size, address, born, died in zip(*lasting, strict=True):
            of = before if call == BEFORE else call
            ended = died < NEVER
            place = address, rounded(size) if ended else block_bytes.get(address, rounded(size))
            self.rows.block(process, of, name, size, moments[born], moments[died] if ended else NO_TIME, place)
        for segment in segments_of(trace, moments, segments):
            self.rows.segment(process, name, segment)
        for event, at in zip(trace, moments, strict=False):
            if event.get("action") == OUT_OF_MEMORY:
                call = stacks.call(event.get("frames"))
                self.rows.refusal(process, call, name, whole(event.get("size")), whole(event.get("device_free")), at)
        self._note(name, trace, lives, reserved)
        if stacks.cut:
            self.making.note(f"{stacks.cut:,} stacks of the snapshot are cut at their outer end: they are too deep")

    def _blocks(self, segments: list[Row], stacks: Stacks, no_stack: int) -> tuple[list[Block], _Reserved]:
        """The live blocks of a device."""
        blocks, sums = [], _Reserved()
        for segment in segments:
            sums.reserved += whole(segment.get("total_size"))
            address = whole(segment.get("address"))
            for block in _rows(segment.get("blocks")):
                address = whole(block.get("address")) or address
                size = whole(block.get("size"))
                if str(block.get("state")).startswith("active"):
                    asked, call = self._asked(block, size, stacks)
                    blocks.append(Block(address, asked, call if call >= 0 else no_stack, size))
                    sums.live += asked
                    sums.rounding += max(size - asked, 0)
                else:
                    sums.unused += size
                    sums.pieces += 1
                    sums.largest = max(sums.largest, size)
                address += size
        return blocks, sums

    def _asked(self, block: Row, size: int, stacks: Stacks) -> tuple[int, int]:
        """Bytes that the program asked for, and the stack that did. Older snapshots have both in the block's `history`."""
        history = next(iter(_rows(block.get("history"))), {})
        frames = block.get("frames", history.get("frames"))
        return min(whole(block.get("requested_size", history.get("real_size", size))), 1 << 44), stacks.call(frames)

    def _note(self, name: str, trace: list[Row], lives: Lives, reserved: _Reserved) -> None:
        note = self.making.note
        peak, most = lives.peak(len(trace))
        if not trace:
            note(f"{name}: the snapshot has no trace, so that the blocks which are live when it was taken count as its peak")
        elif most:
            note(f"{name}: the most memory was live {_when(trace, peak)}: {size_text(most)}")
        if reserved.reserved:
            note(
                f"{name}: at the end {size_text(reserved.reserved)} are reserved, {size_text(reserved.live)} of them are live, "
                f"{size_text(reserved.rounding)} are lost by rounding, and {size_text(reserved.unused)} lie unused in {reserved.pieces:,} "
                f"pieces, the largest of {size_text(reserved.largest)}"
            )
        if lives.missing:
            note(f"{name}: {lives.missing:,} blocks that the trace allocates and never frees are not among the live ones of the snapshot")
        failed = [event for event in trace if event.get("action") == OUT_OF_MEMORY]
        if failed:
            first, times = failed[0], "once," if len(failed) == 1 else f"{len(failed):,} times, first"
            note(
                f"{name}: the allocator ran out of memory {times} when {size_text(whole(first.get('size')))} were "
                f"asked for and {size_text(whole(first.get('device_free')))} were free on the device"
            )
            asked = whole(first.get("size"))
            if reserved.largest < asked <= reserved.unused:
                note(
                    f"{name}: the unused memory of the allocator would have been enough for the {size_text(asked)}, but lies in pieces: "
                    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids that"
                )
        for event in trace:
            action = event.get("action")
            if action not in (ALLOC, OUT_OF_MEMORY, "free_requested", *FREED):
                self.making.unused[f"actions {action}" if isinstance(action, str) else "actions without a name"] += 1


def _when(trace: list[Row], event: int) -> str:
    if event < 0:
        return "when the trace begins"
    began, at = whole(trace[0].get("time_us")), whole(trace[event].get("time_us"))
    after = f", {(at - began) / 1e6:,.3f} s after the trace begins" if 0 < began <= at < 10**18 else ""
    return f"after event {event + 1:,} of {len(trace):,}{after}"


def _moments(trace: list[Row]) -> list[int]:
    """The moment of each event in ns. Torch counts microseconds, or none: later events are at least 1 ns later, so that their order
    remains."""
    moments, last = [], 0
    for event in trace:
        at = whole(event.get("time_us"))
        last = max(last + 1, at * 1000 if at < 1 << 53 else 0)
        moments.append(last)
    return moments


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _rows(value: object) -> list[Row]:
    return list(_dicts(value))


def _dicts(value: object) -> Iterator[Row]:
    return (one for one in _list(value) if isinstance(one, dict))
