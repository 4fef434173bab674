"""The process of one kernel in one way, for gpu_intra_proton.py. A line of JSON answers `prepare`, `device`, `launches`, `records`, `end`.

gpu_intra_proton_player.py KERNEL WAY FOLDER
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aiflame.intra import compile_hook

KERNELS = ("gemm", "attention", "softmax", "layer_norm", "reduction")
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"by": "nobody"},
    "Proton": {"by": "Proton", "mode": ""},
    "Proton, shared, fitted": {"by": "Proton", "mode": "default:buffer_type=shared", "fit": True},
    "Proton, global, fitted": {"by": "Proton", "mode": "default:buffer_type=global", "fit": True},
    "Proton, global, our warps": {"by": "Proton", "mode": "default:buffer_type=global", "fit": True, "our_warps": True},
    "Proton, shared, our warps, quick": {
        "by": "Proton",
        "mode": "default:buffer_type=shared:optimizations=clock32,sched_stores",
        "fit": True,
        "our_warps": True,
    },
    "aiflame": {"by": "aiflame", "every": 1},
    "aiflame, all warps": {"by": "aiflame", "every": 1, "all_warps": True},
    "aiflame, as it records": {"by": "aiflame"},
}
"""`fit`: as much room for records as Proton's limit allows for the grid, at most as much as ours. `every`: each such launch is taken; else
as `aiflame record --intra` does it."""
MOST_BYTES = 64 << 20
SEGMENT = 4096
"""Bytes for the records of a warp, ours."""
HEADER_WORDS, BEGUN, RECORD_WORDS = 10, 0xDEADBEEF, 2
SECONDS, LEAST, MOST = 0.4, 2, 2000
"""Of launches in a row."""
BLOCKS_READ = 64
PASS = "of-the-author"


def main() -> None:
    kernel, way, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    player: Any = None
    for line in sys.stdin:
        try:
            if player is None:
                player = PLAYERS[WAYS[way]["by"]](kernel, WAYS[way], folder)
            answer = getattr(player, line.strip())()
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:600]}
        print("ANSWER", json.dumps(answer), flush=True)
        if line.strip() == "end":
            break


class Plain:
    """The kernel as it is."""

    def __init__(self, kernel: str, how: dict[str, Any], folder: Path) -> None:
        import gpu_intra_scoped
        import torch
        import triton

        self.how, self.folder = how, folder
        self.torch, self.triton = torch, triton
        self.case = gpu_intra_scoped.CASES[kernel]
        torch.manual_seed(1)
        self.given = self.case.given(torch)
        self.grid = (*self.case.grid, 1, 1)[:3]
        self.arguments = [self.given[name] if name in self.given else self.case.constants[name] for name in self.case.kernel.arg_names]
        self.made: Any = None
        """The compiled kernel that `launch_bare` launches."""

    # Questions of gpu_intra_proton.py -----------------------------------------------------------------------------------------------------

    def prepare(self) -> dict[str, Any]:
        self.start()
        return {**self.resources(), "digest": self.digest_of(self.launch_bare)}

    def device(self) -> dict[str, Any]:
        from gpu_intra import timed

        for _ in range(2):
            self.launch_bare()
        return {"ms": [timed(self.launch_bare) for _ in range(5)]}

    def launches(self) -> dict[str, Any]:
        """In a row, until the device is done with them. A profiler that cannot go on here has done its work on the device."""
        try:
            digest = self.digest_of(self.launch)
            begin, launches = time.perf_counter(), 0
            while launches < LEAST or (launches < MOST and time.perf_counter() - begin < SECONDS):
                self.launch()
                launches += 1
            self.torch.cuda.synchronize()
            return {"us": 1e6 * (time.perf_counter() - begin) / launches, "launches": launches, "digest_launched": digest}
        except Exception as error:
            return {"launch_error": f"{type(error).__name__}: {error}"[:300]}

    def records(self) -> dict[str, Any]:
        return {}

    def end(self) -> dict[str, Any]:
        return {}

    # How it is done ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.made = self.compiled()

    def compiled(self) -> Any:
        """As a launch compiles it, without one."""
        options = {"num_warps": self.case.warps, "num_stages": self.case.stages}
        kernel = self.case.kernel.warmup(**self.given, **self.case.constants, **options, grid=self.case.grid)
        kernel._init_handles()
        return kernel

    def launch(self) -> None:
        """As the program does it."""
        self.case.launch(self.given)

    def launch_bare(self) -> None:
        """Without the hooks of a profiler."""
        driver = self.triton.runtime.driver.active
        stream = driver.get_current_stream(driver.get_current_device())
        self.made.run(*self.grid, stream, self.made.function, self.made.packed_metadata, None, None, None, *self.arguments)

    def resources(self) -> dict[str, Any]:
        metadata = self.made.metadata
        scratch = int(getattr(metadata, "profile_scratch_size", 0) or 0)
        return {
            "registers": self.made.n_regs,
            "spills": self.made.n_spills,
            "shared": int(metadata.shared),
            "buffer_bytes": scratch * math.prod(self.grid),
        }

    def digest_of(self, launch: Callable[[], object]) -> str:
        """Of all that it writes."""
        for name in self.case.written:
            self.given[name].zero_()
        launch()
        self.torch.cuda.synchronize()
        whole = hashlib.sha256()
        for name in self.case.written:
            whole.update(self.given[name].cpu().numpy().tobytes())
        return whole.hexdigest()


class Proton(Plain):
    def start(self) -> None:
        import triton.profiler as proton
        import triton.profiler.language as language

        language.enable_semantic("triton")
        mode = self.how["mode"]
        ours = self.how.get("our_warps")
        self.kept = list(compile_hook.default_warps(self.case.warps) if ours else range(self.case.warps))
        if ours:
            mode += f":sampling_strategy=selective:sampling_options={','.join(map(str, self.kept))}"
        if self.how.get("fit"):
            mode += f":buffer_size={self.room()}"
        self.mode = mode
        self.session = proton.start(str(self.folder / f"proton-{os.getpid()}"), backend="instrumentation", mode=mode or None)
        self.made = self.compiled()

    def room(self) -> int:
        """Bytes for a block: each warp's a power of two, all blocks' together within Proton's limit."""
        segment, fixed = SEGMENT, 4 * (HEADER_WORDS + self.case.warps) + 127
        while segment > 64 and (segment * len(self.kept) + fixed) * math.prod(self.grid) > MOST_BYTES:
            segment //= 2
        return segment * len(self.kept)

    def resources(self) -> dict[str, Any]:
        return {**super().resources(), "mode": self.mode or "default", "warps": self.kept}

    def records(self) -> dict[str, Any]:
        """Of a launch, from Proton's own buffer."""
        from triton.profiler.hooks import HookManager, InstrumentationHook

        self.launch_bare()
        self.torch.cuda.synchronize()
        hook = next(hook for hook in HookManager.active_hooks if isinstance(hook, InstrumentationHook))
        return read(hook.buffer, self.made, self.kept)

    def end(self) -> dict[str, Any]:
        import triton.profiler as proton

        begin = time.perf_counter()
        proton.finalize(self.session)
        return {"finish_seconds": round(time.perf_counter() - begin, 2)}


class Aiflame(Plain):
    """On the device, the twin of every launch; by the host's clock, launches of which a session takes all or some."""

    def start(self) -> None:
        from gpu_intra import Twin

        from aiflame.intra import pass_
        from aiflame.intra.runtime import Session, Settings

        pass_(PASS)(_nothing)
        warps = tuple(range(self.case.warps)) if self.how.get("all_warps") else None
        chosen: dict[str, Any] = {"every": 1, "launches": 1 << 30} if "every" in self.how else {}
        captures = self.folder / f"captures-{os.getpid()}"
        captures.mkdir()
        self.notes: list[str] = []
        self.session = Session(Settings(passes=(PASS,), warps=warps, disk=8 << 30, **chosen), captures, self.notes.append)
        self.session.start()
        self.plain = self.compiled()
        self.twin = Twin(self.plain, [PASS], math.prod(self.grid), warps=warps)
        self.made = self.twin.made

    def launch_bare(self) -> None:
        self.twin.launch(self.grid, self.arguments)

    def prepare(self) -> dict[str, Any]:
        answer = super().prepare()
        scopes = {str(number): row["name"] for number, row in self.twin.scopes.items()}
        where = "shared" if compile_hook.description(self.made).get("shared") else "global"
        return {**answer, "records_in": where, "warps": list(self.twin.warps), "scopes": scopes}

    def device(self) -> dict[str, Any]:
        return super().device() if "every" in self.how else {}

    def launches(self) -> dict[str, Any]:
        counts = self.plain.run.counts
        before = counts.launches, counts.recorded, counts.dropped
        answer = super().launches()
        after = counts.launches, counts.recorded, counts.dropped
        launches, recorded, dropped = (now - first for now, first in zip(after, before, strict=True))
        return {**answer, "taken": f"{recorded} of {launches}", "dropped": dropped, "notes": self.notes}

    def records(self) -> dict[str, Any]:
        if "every" not in self.how:
            return {}
        self.twin.memory.zero_()
        self.launch_bare()
        self.torch.cuda.synchronize()
        return read(self.twin.memory, self.made, list(self.twin.warps))

    def end(self) -> dict[str, Any]:
        begin = time.perf_counter()
        self.session.stop()
        return {"finish_seconds": round(time.perf_counter() - begin, 2)}


def _nothing(kernel: Any) -> None:
    """Adds no scope to those of the author."""


def read(memory: Any, kernel: Any, warps: list[int]) -> dict[str, Any]:
    """The records of a launch: how many records, how many of them overwritten, and how long each scope took in the first blocks."""
    size = int(kernel.metadata.profile_scratch_size)
    words = memory.cpu().numpy().view("<u4")
    blocks = words[: len(words) // (size // 4) * (size // 4)].reshape(-1, size // 4)
    begun = blocks[blocks[:, 0] == BEGUN]
    counts = begun[:, HEADER_WORDS + np.array(warps)].astype(np.int64)
    segment = int(begun[0, 3]) // 4 // len(warps)
    data = begun[:BLOCKS_READ, HEADER_WORDS + int(kernel.metadata.num_warps) :]
    cycles: dict[str, list[int]] = {}
    for block, count in zip(data, counts, strict=False):
        for place, written in enumerate(count.tolist()):
            ring = block[place * segment : (place + 1) * segment]
            ring = np.roll(ring, -(written % segment)) if written > segment else ring[:written]
            _durations(ring.reshape(-1, RECORD_WORDS).tolist(), cycles)
    return {
        "records": int(counts.sum()) // RECORD_WORDS,
        "lost": int(np.maximum(counts - segment, 0).sum()) // RECORD_WORDS,
        "records_a_warp": segment // RECORD_WORDS,
        "blocks": len(begun),
        "cycles": {number: statistics.median(durations) for number, durations in sorted(cycles.items())},
    }


def _durations(records: list[list[int]], cycles: dict[str, list[int]]) -> None:
    """Of one warp; by the low 32 bits of the clock."""
    open_: dict[int, int] = {}
    for head, clock in records:
        scope = head >> 23 & 0xFF
        if not head >> 31:
            open_[scope] = clock
        elif scope in open_:
            cycles.setdefault(str(scope), []).append((clock - open_.pop(scope)) % (1 << 32))


PLAYERS: dict[str, Callable[..., Any]] = {"nobody": Plain, "Proton": Proton, "aiflame": Aiflame}

if __name__ == "__main__":
    main()
