"""AMD programs from `aiflame record` to the tree, lines and instructions, on a stand-in for the vendor's runtime with a real code object.

programs/fake_rocprofiler.hpp describes the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hsacos import SCALE, fake_objdump, instructions
from recording import Recorder, Run, recorder, time_under

from aiflame.analyze.kernel.annotate import annotate
from built import built

CODE = Path(__file__).parents[2] / f"unit/data/amd/{SCALE}.hsaco"
INLINED, OWN, CALLED = 0x1954, 0x1930, 0x1828
"""As in test_rocprofiler.py."""
STALLS = "gpu-stalls"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("rocm")
    (folder / "lib/llvm/bin").mkdir(parents=True)
    fake_objdump(folder / "lib/llvm/bin", "show()")
    record: Recorder = recorder(folder)
    env = {"FAKE_ROCM": "stochastic", "ROCPROFILER_PC_SAMPLING_BETA_ENABLED": "on"}
    result = record(built("programs/rocm_client"), CODE, f"{INLINED:#x},{OWN:#x},{CALLED:#x}", env=env)
    assert (result.status, result.stdout) == (0, "0 violations\n"), result.stderr
    with pytest.MonkeyPatch.context() as patch:  # the profile is sealed where it is opened first
        patch.setenv("ROCM_PATH", str(folder))
        yield result


def test_gpu_time_lies_under_the_function_that_launched(run: Run) -> None:
    tree = run.profile().tree("gpu-time")
    times = [time_under(tree, caller, "scale", metric="gpu-time") for caller in ("left", "right")]
    assert times == [300_000, 3_000_000]


def test_frames_between_the_programs_call_and_the_kernel_are_hips_alone(run: Run) -> None:
    tree = run.profile().tree("gpu-time")
    names = tree.frames["name"].to_list()
    assert not [name for name in names if "fake" in name or "rocprofiler" in name or "aiflame" in name], names


def test_samples_are_exact_for_each_launch_and_not_divided_by_time(run: Run) -> None:
    tree = run.profile().tree(STALLS, detail="instruction")
    assert [time_under(tree, caller, "scale", metric=STALLS) for caller in ("left", "right")] == [300, 100]
    assert [time_under(tree, caller, "waitcnt", metric=STALLS) for caller in ("left", "right")] == [180, 60]
    assert [time_under(tree, caller, "slow_part", metric=STALLS) for caller in ("left", "right")] == [30, 10]
    assert int(tree.values[STALLS].sum()) == 413, "five of no code object, one of nothing, seven that could not be read"


def test_a_sample_stands_at_its_line_and_its_instruction(run: Run) -> None:
    tree = run.profile().tree(STALLS, detail="instruction")
    assert time_under(tree, "left", "scale.cl:12", "square scale.cl:2", "waitcnt", metric=STALLS) == 180
    text = dict(instructions(SCALE))[OWN]
    assert time_under(tree, "right", "scale.cl:13", text.split()[0], "selected", metric=STALLS) == 30


def test_annotate_shows_the_kernels_instructions_and_its_reasons(run: Run) -> None:
    answer = annotate(run.profile().store, "scale")
    assert answer.language == "ISA" and answer.disassembled
    assert {one.offset + 0x1900: one.sass for one in answer.instructions}.items() <= dict(instructions(SCALE)).items()
    assert {name: count.samples for name, count in answer.reasons.items()} == {"waitcnt": 240, "selected": 120}
    hot = {one.offset + 0x1900: one for one in answer.instructions if one.count.samples}
    assert sorted(hot) == [OWN, INLINED]
    assert [(place.function, place.line) for place in hot[INLINED].chain] == [("square", 2), ("scale", 12)]
    (shape,) = answer.shapes
    assert (shape.registers, shape.static_shared, shape.launches) == (32, 1024, 4)
