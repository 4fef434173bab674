"""A caching allocator of one or more devices that writes snapshots as torch's `torch.cuda.memory._dump_snapshot` does: segments with
blocks, and the trace of its last actions."""

from __future__ import annotations

import pickle
import random
from typing import Any

Frame = dict[str, Any]
ROUNDING = 512
SEGMENT = 1 << 21


def python(function: str, file: str = "train.py", line: int = 1) -> Frame:
    return {"name": function, "filename": file, "line": line}


def native(function: str, file: str = "??", line: int = 0) -> Frame:
    return {"name": function, "filename": file, "line": line}


class Device:
    def __init__(self, number: int) -> None:
        self.number = number
        self.trace: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self.blocks: dict[int, dict[str, Any]] = {}
        self.now = 1_750_000_000_000_000
        self._free: dict[int, list[int]] = {}
        self._next = 0x7F0000000000 + (number << 36)

    def _record(self, action: str, address: int, size: int, frames: list[Frame], place: str = "addr") -> None:
        self.now += 10
        self.trace.append({"action": action, place: address, "size": size, "stream": 0, "time_us": self.now, "frames": frames})

    def alloc(self, size: int, frames: list[Frame]) -> int:
        """Memory for `size` bytes, in a free block of exactly the same rounded size or in a new segment; the begin of its address range."""
        rounded = -(-max(size, 1) // ROUNDING) * ROUNDING
        if free := self._free.get(rounded):
            address = free.pop()
        else:
            address, whole = self._next, max(rounded, SEGMENT)
            self._next += 2 * whole
            self._record("segment_alloc", address, whole, frames)
            self.segments.append({"address": address, "total_size": whole})
        self.blocks[address] = {"requested_size": size, "size": rounded, "frames": frames, "state": "active_allocated"}
        self._record("alloc", address, size, frames)
        return address

    def free(self, address: int, frames: list[Frame], *, at_once: bool = True) -> None:
        block = self.blocks[address]
        self._record("free_requested", address, block["requested_size"], frames)
        block["state"] = "active_pending_free"
        if at_once:
            self.complete(address, frames)

    def complete(self, address: int, frames: list[Frame]) -> None:
        block = self.blocks.pop(address)
        self._record("free_completed", address, block["requested_size"], frames)
        self._free.setdefault(block["size"], []).append(address)

    def fail(self, size: int, free: int, frames: list[Frame]) -> None:
        self._record("oom", free, size, frames, "device_free")

    def own_segments(self) -> list[dict[str, Any]]:
        written = []
        for segment in self.segments:
            block = self.blocks.get(segment["address"])
            size = block["size"] if block else 0
            blocks = [{"address": segment["address"], **block}] if block else []
            unused = segment["total_size"] - size
            if unused:
                place = segment["address"] + size
                blocks.append({"address": place, "size": unused, "requested_size": 0, "state": "inactive", "frames": []})
            active = block["requested_size"] if block else 0
            written.append(
                {
                    "device": self.number,
                    "address": segment["address"],
                    "total_size": segment["total_size"],
                    "allocated_size": size,
                    "active_size": size,
                    "requested_size": active,
                    "stream": 0,
                    "segment_type": "large" if segment["total_size"] > SEGMENT else "small",
                    "segment_pool_id": (0, 0),
                    "is_expandable": False,
                    "frames": [],
                    "blocks": blocks,
                }
            )
        return written


def snapshot(*devices: Device, last: int | None = None) -> dict[str, Any]:
    """`last`: how many actions of each device's trace are kept, as with `max_entries`."""
    traces: list[list[dict[str, Any]]] = [[] for _ in range(max(device.number for device in devices) + 1)]
    for device in devices:
        traces[device.number] = device.trace[-last:] if last is not None else device.trace
    return {
        "segments": [segment for device in devices for segment in device.own_segments()],
        "device_traces": traces,
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "roundup_power2_divisions": {"1": 0, "2": 0}},
        "external_annotations": [],
    }


def written(content: object, protocol: int = 4) -> bytes:
    return pickle.dumps(content, protocol)


def busy(seed: int, *, devices: int = 1, actions: int = 400, last: int | None = None) -> dict[str, Any]:
    """A run of allocations and frees by a few functions, some of them in C++ and some recorded without a stack."""
    chance = random.Random(seed)
    main = python("<module>", "train.py", 90)
    functions = [python(name, f"model_{name[0]}.py", line) for name, line in (("forward", 7), ("attention", 30), ("step", 55))]
    inner = [native("at::native::empty_like(at::Tensor const&)"), native("at::_ops::mul_Tensor::call(at::Tensor const&)")]
    noise = native("torch::unwind::unwind()")
    stacks: list[list[Frame]] = [[function, main] for function in functions]
    stacks += [[noise, *inner, native("_PyEval_EvalFrameDefault"), function, native("_start"), main] for function in functions]
    stacks.append([])
    all_devices = [Device(number) for number in range(devices)]
    for device in all_devices:
        live: list[int] = []
        waiting: list[int] = []
        for _ in range(actions):
            stack = chance.choice(stacks)
            if live and chance.random() < 0.47:
                address = live.pop(chance.randrange(len(live)))
                at_once = chance.random() < 0.9
                device.free(address, stack, at_once=at_once)
                waiting += [] if at_once else [address]
            elif waiting and chance.random() < 0.3:
                device.complete(waiting.pop(0), stack)
            else:
                live.append(device.alloc(chance.choice([1, 100, 512, 4096, 70_000, 1 << 20, 5_000_000]), stack))
    return snapshot(*all_devices, last=last)
