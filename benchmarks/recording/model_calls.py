"""The cost of recording a call of a model (torch) or of a jitted function (JAX); beside the same calls, not recorded, in the same process.

    python benchmarks/recording/model_calls.py [--pairs 400] [--python PYTHON_WITH_JAX] [--output benchmarks/results/calls/model_calls.json]

In a recorded process, blocks of calls alternate: one through the collector's function, one through the pointer that was there before, in an
order that changes from pair to pair. CPU time of the thread; the median of the differences within pairs, and the interval that holds the
median of all such differences with 95% (by the order of the differences: nothing is assumed of their distribution).

torch: a module whose forward returns at once, given tokens by position or by keyword, or none; and one that calls ten such modules, whose
calls only look at a flag. JAX: a jitted function that adds 1 to four numbers.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/calls/model_calls.json"
CALLS = 2000
LIMIT_NS = 500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with JAX")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--inside", choices=tuple(INSIDE), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(INSIDE[options.inside](options.pairs)))
        return 0
    from aiflame.profile.folder.meta import Host

    host = Host.here()
    results: dict[str, Any] = {
        "machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel},
        "load": round(os.getloadavg()[0], 1),
        "unit": f"ns a call; {options.pairs} pairs of blocks of {CALLS} calls",
        "limit": LIMIT_NS,
    }
    for name, python in (("torch", sys.executable), ("jax", options.python)):
        results[name] = recorded([python, __file__, "--inside", name, "--pairs", str(options.pairs)])
    print(json.dumps(results, indent=1))
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    costs = [case["cost"] for name in ("torch", "jax") for case in results[name].values() if isinstance(case, dict)]
    return int(any(cost[2] > LIMIT_NS for cost in costs))


def recorded(command: list[str]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        record = [sys.executable, "-m", "aiflame.cli.main", "record", "--no-seal", "-o", f"{folder}/run.aiflame", "--", *command]
        return json.loads(subprocess.run(record, stdout=subprocess.PIPE, text=True, check=True).stdout)


def in_torch(pairs: int) -> dict[str, Any]:
    import torch

    class Leaf(torch.nn.Module):
        def forward(self, input_ids: object = None) -> object:
            return input_ids

    class Ten(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(Leaf() for _ in range(10))

        def forward(self, input_ids: object) -> object:
            for part in self.parts:
                part(input_ids)
            return input_ids

    torch.set_num_threads(1)
    model, ten, tokens = Leaf(), Ten(), torch.ones(2, 8, dtype=torch.int64)
    plain = ctypes.cast(ctypes.pythonapi._PyFunction_Vectorcall, ctypes.c_void_p).value or 0
    pointer = Pointer(vars(torch.nn.Module)["__call__"], plain)
    turns = range(CALLS)

    def by_position() -> None:
        for _ in turns:
            model(tokens)

    def by_keyword() -> None:
        for _ in turns:
            model(input_ids=tokens)

    def without_tokens() -> None:
        for _ in turns:
            model()

    def with_ten_within() -> None:
        for _ in turns:
            ten(tokens)

    cases = (by_position, by_keyword, without_tokens, with_ten_within)
    return {"version": torch.__version__, "python": sys.version.split()[0], **{case.__name__: cost(case, pointer, pairs) for case in cases}}


def in_jax(pairs: int) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    function, value = jax.jit(lambda numbers: numbers + 1), jnp.ones(4)
    function(value)
    pointer = Pointer(function, call_pointer(jnp.tanh))
    turns = range(CALLS)

    def jitted() -> None:
        for _ in turns:
            function(value)

    return {"version": jax.__version__, "python": sys.version.split()[0], "jitted": cost(jitted, pointer, pairs)}


INSIDE: dict[str, Callable[[int], dict[str, Any]]] = {"torch": in_torch, "jax": in_jax}


class Pointer:
    """The pointer through which CPython calls an object: it leads to the collector, and `plain` is where it led before."""

    def __init__(self, function: object, plain: int) -> None:
        self.ours, self.plain = call_pointer(function), plain
        if self.ours == plain:
            sys.exit("the collector does not record these calls")
        words = [ctypes.c_uint64.from_address(id(function) + 8 * at) for at in range(type(function).__basicsize__ // 8)]
        (self._word,) = [word for word in words if word.value == self.ours]

    def lead(self, recorded: bool) -> None:
        self._word.value = self.ours if recorded else self.plain


def call_pointer(function: object) -> int:
    ask = ctypes.pythonapi.PyVectorcall_Function
    ask.restype, ask.argtypes = ctypes.c_void_p, [ctypes.py_object]
    return ask(function) or 0


def cost(block: Callable[[], None], pointer: Pointer, pairs: int) -> dict[str, Any]:
    took: dict[bool, list[float]] = {True: [], False: []}
    block()
    for pair in range(pairs):
        for recorded in (bool(pair % 2), not pair % 2):
            pointer.lead(recorded)
            begin = time.thread_time_ns()
            block()
            took[recorded].append((time.thread_time_ns() - begin) / CALLS)
    pointer.lead(True)
    differences = sorted(one - other for one, other in zip(took[True], took[False], strict=True))
    away = round(0.98 * pairs**0.5)
    low, middle, high = (round(differences[pairs // 2 + at], 1) for at in (-away, 0, away))
    return {"not_recorded": round(sorted(took[False])[pairs // 2], 1), "cost": [low, middle, high]}


if __name__ == "__main__":
    raise SystemExit(main())
