"""Trees of scopes, as Proton writes them."""

from __future__ import annotations

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
