"""Profiles for the report: a training program whose kernels were sampled, with its sources; and one whose every name is hostile."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from profiles import Row
from stories import US, Story

from aiflame.profile.folder.meta import Clocks, Host, Meta
from aiflame.profile.tables.store import Profile

SOURCE = "/app/kernels.cu"
LINES = ("__global__ void sgemm(float* out) {", "  float x = 0;", "  x += load(out);", "  __syncthreads();", "  out[0] = x;", "}")
META = Meta(
    version="1.2",
    command=("python", "train.py"),
    host=Host("box", "EPYC", 64, "6.1.0", "3.12.1"),
    started=Clocks(0, 0, 1_700_000_000_000_000_000),
    ended=Clocks(5_000_000_000, 5_000_000_000, 0),
    exit_status=0,
    complete=True,
)
STEPS = 6
SLOWEST = 4

HOSTILE = (
    "</script><script>window.harmed=1</script>",
    "<!-- <img src=x onerror=window.harmed=1>",
    "]]>&amp;\"'`${window.harmed=1}{csp}{blocks}",
    "\u202eevil\u2066 name\u2069",
    "NUL\x00 and \x1b[31m controls",
    "=cmd|' /C calc'!A0",
    "x" * 100_000,
)


def training(path: Path, meta: Meta | None = META, kernels: int = 2) -> Profile:
    """Steps of 100 µs, one of 300: 60 µs of `sgemm` in layers.0.attn and layers.1.attn, 10 µs of softmax; the rest is idle."""
    story = Story()
    begin = 1000.0
    for step in range(STEPS):
        story.layer_work(begin, begin + 5, begin + 35, "model", "model/layers.0", "model/layers.0.attn", name="sgemm")
        story.layer_work(begin + 1, begin + 35, begin + 65, "model", "model/layers.1", "model/layers.1.attn", name="sgemm")
        story.now = round((begin + 66) * US)
        story.backward()
        story.kernels[-1] |= {"start_ns": round((begin + 70) * US), "end_ns": round((begin + 80) * US), "name": "softmax"}
        story.during("optimizer", begin + 82, begin + 83)
        begin += 300 if step == SLOWEST else 100
    for number in range(2, kernels):
        story.work(begin + number, begin + number + 0.1, begin + number + 0.2, name=f"small_{number}")
    for moment in range(10):
        story.met(moment + 20, ("train", "/app/train.py", 12), clock=0)
    story.sampled("sgemm", {"selected": 5, "wait": 5}, line=2, file=SOURCE)
    story.sampled("sgemm", {"long_scoreboard": 60, "long_scoreboard_not_issued": 30}, line=3, file=SOURCE)
    story.sampled("sgemm", {"barrier": 30}, line=4, file=SOURCE)
    return story.profile(path, meta, **code("sgemm", SOURCE, "\n".join(LINES) + "\n"))


def code(kernel: str, file: str, text: str) -> dict[str, list[Row]]:
    """Four instructions: the first without samples, the others where `Story.sampled` puts those of lines 2, 3 and 4."""
    sass = {0: "S2R R0, SR_TID.X", 0x10: "FADD R1, R1, R2", 0x30: "LDG.E R2, [R4.64]", 0x50: "BAR.SYNC.DEFER_BLOCKING 0x0"}
    return {
        "gpu_instructions": [{"cubin": 7, "function": kernel, "offset": offset, "sass": text} for offset, text in sass.items()],
        "sources": [{"path": file, "text": text}],
        "cubins": [{"crc": 7, "bytes": 100}],
    }


def with_symbols(profile: Profile) -> Profile:
    """Adds symbols to a profile that names no frame; sealing would have looked for them."""
    columns = {"process": pl.UInt32, "frame": pl.UInt64, "depth": pl.UInt16, "name": pl.String, "full_name": pl.String, "kind": pl.UInt8}
    more = {"module": pl.String, "file": pl.String, "line": pl.UInt32, "offset": pl.UInt64, "approximate": pl.Boolean}
    profile.write_table("symbols", pl.DataFrame(schema=columns | more))
    return profile


def hostile(path: Path) -> Profile:
    """Every text that a person may choose is one of HOSTILE."""
    story = Story()
    begin = 1000.0
    for number, name in enumerate(HOSTILE):
        for again in range(3):
            at = begin + 100 * (3 * number + again)
            story.layer_work(at, at + 5, at + 35, name, f"{name}/{name}", name=name)
            story.work(at + 40, at + 45, at + 50, (name, f"/app/{name}", 7), name=f"copy of {name}")
        story.met(number + 20, (name, f"/app/{name}", 12), clock=0)
        story.sampled(name, {"wait": 50 + number}, line=1, file=f"/app/{name}")
    meta = Meta(
        version=HOSTILE[0],
        command=("python", *HOSTILE, "\ud800"),
        host=Host(HOSTILE[1], HOSTILE[2], 64, HOSTILE[3]),
        started=Clocks(0, 0, 1_700_000_000_000_000_000),
        degraded=HOSTILE,
    )
    more: dict[str, list[Row]] = {"notes": [{"text": name} for name in HOSTILE], "sources": [], "gpu_instructions": [], "cubins": []}
    for number, name in enumerate(HOSTILE):
        more["sources"].append({"path": f"/app/{name}", "text": f"{name}\n" * 3})
        more["gpu_instructions"].append({"cubin": 7, "function": name, "offset": 16 * (number + 1), "sass": name})
    return story.profile(path, meta, **more)
