"""The instrumented twin of a kernel: compiled as the kernel was, under a key of its own; or refused, with the reason."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

import intra_add
import torch
from intra_program import Program, recipe_of

from aiflame.intra import compile_hook
from aiflame.intra.errors import Refused
from aiflame.intra.passes import Kernel, pass_

# Kernels that stay as they are ------------------------------------------------------------------------------------------------


@pass_("broken")
def broken(kernel: Kernel) -> None:
    kernel.wrap(next(kernel.ops("tt.load")))
    raise ZeroDivisionError("of mine")


@pass_("crossing")
def crossing(kernel: Kernel) -> None:
    (loop,) = kernel.loops
    kernel.span(loop.children[0], loop, "in and out")


@pytest.mark.parametrize(
    ("kernel", "passes", "why"),
    [
        (intra_add.add, ("regions", "broken"), "the pass broken failed: of mine"),
        (intra_add.calls_far, ("regions",), "not inlined"),
        (intra_add.forgets_an_end, ("regions",), "scope 'mine'"),
        (intra_add.add, ("mma",), "nothing to time"),
        (intra_add.sums, ("crossing",), "not one behind the other in the same block"),
    ],
)
def test_a_kernel_that_cannot_be_instrumented_runs_unchanged_with_one_note(
    program: Program, kernel: Any, passes: tuple[str, ...], why: str
) -> None:
    program.record(passes=passes, every=1)
    assert program.launch(kernel, times=3) == [False] * 3
    assert [why in note for note in program.notes] == [True], program.notes


# Keys of the compiler's cache -------------------------------------------------------------------------------------------------


def test_neither_the_kernel_nor_its_twin_is_ever_served_for_the_other(program: Program) -> None:
    plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
    recipe = recipe_of("regions")
    twin = compile_hook.twin(plain, recipe)
    for compiled in (False, True):  # the second time all of it comes from the cache
        assert ("%clock" in twin.asm["ptx"], "%clock" in plain.asm["ptx"]) == (True, False)
        assert plain.hash != twin.hash and compile_hook.description(twin)["scopes"]
        if not compiled:
            intra_add.add.device_caches.clear()
            plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
            twin = compile_hook.twin(plain, recipe)
    assert compile_hook.twin(plain, recipe_of("loads")).hash != twin.hash, "other passes, another kernel"


PASSES = """
def small(kernel):
    return LIMIT + len({name for name in ("first", "second", "third") if (lambda: name)()})

LIMIT = 1

def to(most):
    def limited(kernel):
        return most
    return limited
"""


def test_the_same_pass_has_the_same_twin_in_every_process_and_a_changed_one_another(tmp_path: Path) -> None:
    def mode(text: str, what: str) -> str:
        (tmp_path / "passes.py").write_text(text)
        program = f"import passes; from aiflame.intra.compile_hook import Recipe; print(Recipe((('small', passes.{what}),)).mode)"
        sources = Path(compile_hook.__file__).parents[2]
        environment = {**os.environ, "PYTHONPATH": f"{sources}:{tmp_path}", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True).stdout

    first = mode(PASSES, "small")
    assert first == mode(PASSES, "small")
    assert first != mode(PASSES.replace("LIMIT = 1", "LIMIT = 2"), "small"), "values that the pass refers to count, too"
    assert mode(PASSES, "to(1)") == mode(PASSES, "to(1)") != mode(PASSES, "to(2)")


def test_a_twin_is_compiled_as_its_kernel_was(program: Program) -> None:
    plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,), num_warps=8, num_stages=2)
    twin = compile_hook.twin(plain, recipe_of("regions"))
    ours, theirs = twin.metadata._asdict(), plain.metadata._asdict()
    different = {name for name in theirs if ours[name] != theirs[name]}
    assert different == {"hash", "instrumentation_mode", "profile_scratch_size", "profile_scratch_align"}


def test_scopes_that_the_author_has_written_are_kept(program: Program) -> None:
    plain = intra_add.has_scopes.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
    assert "%clock" not in plain.asm["ptx"]
    said = compile_hook.description(compile_hook.twin(plain, recipe_of("stores")))
    assert {(row["name"], row["pass"]) for row in said["scopes"]} == {("mine", "user"), ("store at 39", "stores")}


@pytest.mark.parametrize(("bits", "reads"), [(43, 4), (32, 2)])
def test_a_clock_of_32_bits_is_read_at_once(program: Program, bits: int, reads: int) -> None:
    plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
    twin = compile_hook.twin(plain, dataclasses.replace(recipe_of("regions"), clock_bits=bits))
    assert len(re.findall(r"%clock", twin.asm["ptx"])) == reads
    assert compile_hook.description(twin)["clock_bits"] == bits


def test_warps_that_a_kernel_has_not_are_left_out(program: Program) -> None:
    plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
    some = dataclasses.replace(recipe_of("regions"), warps=(1, 9))
    assert compile_hook.description(compile_hook.twin(plain, some))["warp_ids"] == [1]
    with pytest.raises(Refused, match="no warp"):
        compile_hook.twin(plain, dataclasses.replace(some, warps=(9,)))
