"""Trees of scopes, as Proton writes them."""

from __future__ import annotations

import struct
from typing import Any


def node(name: str, *children: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}


def kernel(name: str, took: int, count: int, device: str = "0", **more: Any) -> dict[str, Any]:
    return node(name, **{"time (ns)": took, "count": count, "device_id": device, "device_type": "HIP", **more})


MADE = [
    node(
        "ROOT",
        node("/home/u/run.py:12@train", kernel("matmul [M=16]", 1_000, 3, flops16=64.0), kernel("relu", 7, 2, "1")),
        node("scope", kernel("relu", 5, 1), bytes=100, **{"cpu_time (ns)": 12_345}),
        **{"time (ns)": 0, "count": 0},
    ),
    {"HIP": {"0": {"arch": "gfx942", "num_sms": 304}}},
]


def packed(value: object) -> bytes:
    """As Proton's MsgPackWriter writes it."""
    if isinstance(value, bool) or value is None:
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int):
        if 0 <= value < 0x80 or -32 <= value < 0:
            return struct.pack(">b", value)
        sizes = ((0xCC, ">B", 8), (0xCD, ">H", 16), (0xCE, ">I", 32), (0xCF, ">Q", 64))
        signed = ((0xD0, ">b", 7), (0xD1, ">h", 15), (0xD2, ">i", 31), (0xD3, ">q", 63))
        tag, form, _ = next(one for one in (sizes if value >= 0 else signed) if abs(value) < 1 << one[2] or value == -1 << one[2])
        return bytes([tag]) + struct.pack(form, value)
    if isinstance(value, str):
        content = value.encode()
        return _head(len(content), 0xA0, 31, (0xD9, 0xDA, 0xDB)) + content
    if isinstance(value, list):
        return _head(len(value), 0x90, 15, (None, 0xDC, 0xDD)) + b"".join(map(packed, value))
    assert isinstance(value, dict)
    keys = sorted(value, key=lambda key: ("frame", "metrics", "children").index(key) if key in ("frame", "metrics", "children") else 0)
    return _head(len(value), 0x80, 15, (None, 0xDE, 0xDF)) + b"".join(packed(key) + packed(value[key]) for key in keys)


def _head(size: int, tag: int, short: int, tags: tuple[int | None, ...]) -> bytes:
    if size <= short:
        return bytes([tag | size])
    form = next(
        (own, form) for own, form, most in zip(tags, [">B", ">H", ">I"], (0xFF, 0xFFFF, 1 << 32), strict=True) if own and size <= most
    )
    return bytes([form[0]]) + struct.pack(form[1], size)
