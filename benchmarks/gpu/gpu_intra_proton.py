"""Inside Triton kernels: Proton's own instrumentation beside ours, on the same scopes, in the same run.

    gpu_intra_proton.py --output proton.json [--kernels gemm softmax] [--ways plain aiflame]

The kernels of gpu_intra_scoped.py have scopes of triton.profiler.language in them: both read the clock at the same places of the same IR.
Each way has a process of its own for each kernel (Proton changes the compiler, and where it cannot go on it may end its process), and the
processes take turns, so that the machine's speed falls out. For each kernel and way:

- `device`: milliseconds of the kernel on the device, between CUDA events, launched without any hook: the cost of marks and stores.
- `launch`: microseconds by the host's clock of a launch as a program makes it, over launches in a row until the device is done; with all
  that the profiler does for each launch. Proton waits for the kernel, copies its buffer and reads it; its limit is 64 MiB of records.
  `aiflame` copies them out behind the kernel and takes the launches that `every` says, and plain ones between.
- `equal`: whether the kernel's output is equal to the bit to the plain kernel's.
- `records` that a launch made, `lost` of them, as the ring of a warp was full; `cycles`: medians by scope, of the first blocks.

A way that fails has the message under `error`, and does not stop the others.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_common import machine
from gpu_intra_proton_player import KERNELS, WAYS

PLAYER = Path(__file__).with_name("gpu_intra_proton_player.py")
ROUNDS, TURNS = 6, 2
LONGEST = {"prepare": 120.0, "device": 30.0, "launches": 60.0, "records": 60.0, "end": 30.0}
"""Seconds that an answer may take."""
SLOW = 0.2
"""Seconds a launch, from which on one turn is enough."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    ways = list(dict.fromkeys(["plain", *options.ways]))
    result: dict[str, Any] = {"machine": machine(), "about": __doc__, "ways": {way: WAYS[way] for way in ways}, "kernels": {}}
    for kernel in options.kernels:
        began = time.monotonic()
        try:
            result["kernels"][kernel] = measured(kernel, ways)
        except Exception as error:
            result["kernels"][kernel] = {"error": f"{type(error).__name__}: {error}"}
        result["summary"] = summary(result["kernels"], ways)
        options.output.write_text(json.dumps(result, indent=1) + "\n")
        print(kernel, f"{time.monotonic() - began:.0f} s", json.dumps(result["kernels"][kernel]), flush=True)
    print(table(result["kernels"], ways))
    sys.exit(0 if any("device" in row for rows in result["kernels"].values() for row in rows.values() if isinstance(row, dict)) else 1)


def measured(kernel: str, ways: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="aiflame-proton-") as folder, contextlib.ExitStack() as stack:
        players = {way: stack.enter_context(playing(kernel, way, Path(folder))) for way in ways}
        rows: dict[str, Any] = {way: {} for way in ways}
        for player in players.values():
            player.ask("prepare")
        for way, player in players.items():
            rows[way] |= player.answer("prepare")
        device: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way in ways:
                device[way] += players[way].asked("device").get("ms", [])
        launch: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(TURNS):
            for way in ways:
                if turn == 0 or min(launch[way], default=0) < SLOW * 1e6:
                    answer = players[way].asked("launches")
                    launch[way] += [answer.pop("us")] if "us" in answer else []
                    rows[way] |= answer
        for way in ways:
            rows[way] |= players[way].asked("records")
        for way in ways:
            rows[way] |= players[way].asked("end")
            if error := players[way].error:
                rows[way]["error"] = error
    for way in ways:
        if device[way]:
            rows[way]["device"] = {"ms": round(statistics.median(device[way]), 4), "times": len(device[way])}
        if launch[way]:
            rows[way]["launch"] = {"us": round(min(launch[way]), 1), "all": [round(one, 1) for one in launch[way]]}
    return compared(rows)


def compared(rows: dict[str, Any]) -> dict[str, Any]:
    plain = rows["plain"]
    names: dict[str, str] = next((row["scopes"] for row in rows.values() if row.get("scopes")), {})
    right = plain.get("digest")
    for way, row in rows.items():
        digests = {row.pop(name) for name in ("digest", "digest_launched") if name in row}
        if way != "plain" and digests and right:
            row["equal"] = digests == {right}
        if way != "plain" and "device" in row and "device" in plain:
            row["device"]["overhead_percent"] = round(100 * (row["device"]["ms"] / plain["device"]["ms"] - 1), 2)
        if way != "plain" and "launch" in row and "launch" in plain:
            row["launch"]["times_plain"] = round(row["launch"]["us"] / plain["launch"]["us"], 2)
        if "cycles" in row:
            row["cycles"] = {names.get(number, number): cycles for number, cycles in row["cycles"].items()}
    return rows


def summary(kernels: dict[str, Any], ways: list[str]) -> dict[str, Any]:
    """Of each way, over the kernels that it could measure."""
    said: dict[str, Any] = {}
    for way in ways:
        rows = [row[way] for row in kernels.values() if way in row]
        over = [row["device"]["overhead_percent"] for row in rows if "overhead_percent" in row.get("device", {})]
        times = [row["launch"]["times_plain"] for row in rows if "times_plain" in row.get("launch", {})]
        said[way] = {
            "kernels": len(rows),
            "failed": sum("error" in row or "launch_error" in row for row in rows),
            "equal": sum(row.get("equal") is True for row in rows),
            "mean_overhead_percent": round(statistics.mean(over), 2) if over else None,
            "worst_overhead_percent": max(over, default=None),
            "median_launch_times_plain": round(statistics.median(times), 2) if times else None,
        }
    return said


def table(kernels: dict[str, Any], ways: list[str]) -> str:
    lines = [f"{'kernel':12} {'way':34} {'ms':>8} {'%':>7} {'µs/launch':>11} {'x plain':>9} equal  records    lost  error"]
    for kernel, rows in kernels.items():
        for way in ways:
            row = rows.get(way, {}) if "error" not in rows else rows
            device, launch = row.get("device", {}), row.get("launch", {})
            lines.append(
                f"{kernel:12} {way:34} {device.get('ms', '-'):>8} {device.get('overhead_percent', '-'):>7} {launch.get('us', '-'):>11}"
                f" {launch.get('times_plain', '-'):>9} {row.get('equal', '-')!s:5} {row.get('records', '-'):>8} {row.get('lost', '-'):>7}"
                f"  {(row.get('error') or row.get('launch_error') or '')[:120]}"
            )
    return "\n".join(lines)


class Player:
    """A process that has one kernel in one way, and answers."""

    def __init__(self, kernel: str, way: str, folder: Path) -> None:
        self.error = ""
        self._stderr = folder / f"{way}.stderr".replace(" ", "-").replace(",", "")
        with self._stderr.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(PLAYER), kernel, way, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def asked(self, question: str) -> dict[str, Any]:
        self.ask(question)
        return self.answer(question)

    def ask(self, question: str) -> None:
        assert self._process.stdin is not None
        if not self.error:
            with contextlib.suppress(OSError):  # `answer` reports that the process has ended
                self._process.stdin.write(question + "\n")
                self._process.stdin.flush()

    def answer(self, question: str) -> dict[str, Any]:
        """The process's answer; empty after an error, and for all later questions."""
        if self.error:
            return {}
        until = time.monotonic() + LONGEST[question]
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return self._failed(f"{question}: no answer in {LONGEST[question]:.0f} s")
            if line is None:
                return self._failed(f"{question}: the process ended with {self._process.wait()}: {self._stderr.read_text()[-600:].strip()}")
            if line.startswith("ANSWER "):
                answer: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                return self._failed(f"{question}: {answer['error']}") if "error" in answer else answer

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _failed(self, why: str) -> dict[str, Any]:
        self.error = why
        self.end()
        return {}

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)


@contextlib.contextmanager
def playing(kernel: str, way: str, folder: Path) -> Iterator[Player]:
    player = Player(kernel, way, folder)
    try:
        yield player
    finally:
        player.end()


if __name__ == "__main__":
    main()
