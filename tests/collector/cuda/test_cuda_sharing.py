"""Other users of CUPTI in a recorded program work as they do alone, and a note says which data we do not record meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from cuda_scenes import FAKES, SAMPLED_ONCE, Scene, inside, joined, needs_fakes

from aiflame.profile.schema.control_schema import GpuSampling

pytestmark = needs_fakes


TOOLS = {"torch.profiler": FAKES / "tools" / "libtorch_tool.so", "Proton": FAKES / "tools" / "libproton_tool.so"}
COPY_OF_ITS_OWN = {"TOOL": str(TOOLS["Proton"]), "TOOL_CUPTI": str(FAKES / "cupti12" / "libcupti.so.12")}


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest) -> str:
    """Another user of CUPTI: one is linked with it, one looks its functions up."""
    return str(request.param)


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_another_tool_in_the_program_works_and_we_record_the_rest(scene: Scene, tool: str, sampling: int) -> None:
    shared = scene("shared", gpu_sampling=sampling, env={"TOOL": str(TOOLS[tool])})
    assert json.loads(shared.outcome.stdout) == [60, 60 if tool == "Proton" else 0], "it saw all that ran in its time"
    assert Counter(joined(shared.process, "kernels")["launched"]) == {"little": 30}
    stalls = [SAMPLED_ONCE] if sampling == GpuSampling.AUTO else []
    assert shared.notes == [f"{tool} uses CUPTI: GPU kernels are not recorded until it has finished", *stalls]
    kernels = joined(shared.process, "kernels")
    assert (kernels["start_ns"] < kernels["begin_ns"] + 1_000_000_000).all(), "by our clock again"
    assert Counter(kernels["correlation"] // (1 << 32)) == {0: 10, 1: 10, 2: 10}, "CUPTI may begin its ids anew each time"


def test_another_tool_may_bring_its_own_copy_of_cupti(scene: Scene) -> None:
    """The driver serves one copy: the tool is led to ours."""
    shared = scene("shared", env=COPY_OF_ITS_OWN)
    assert json.loads(shared.outcome.stdout) == [60, 60]
    assert Counter(joined(shared.process, "kernels")["launched"]) == {"little": 30}


@pytest.mark.parametrize("name", ["shared_from_the_start", "shared_with_one_that_was_ready"])
def test_another_tool_may_have_its_own_copy_of_cupti_before_cuda_starts(scene: Scene, name: str) -> None:
    """The driver serves one copy: we use the tool's, not the one that the program had first."""
    shared = scene(name, env=COPY_OF_ITS_OWN | {"LOADED_FIRST": str(FAKES / "cupti13" / "libcupti.so.13")})
    ready = name == "shared_with_one_that_was_ready"
    assert json.loads(shared.outcome.stdout) == ([60, 60] if ready else [30, 30])
    assert Counter(joined(shared.process, "kernels")["launched"]) == {"little": 20 if ready else 10}
    assert shared.notes == ["Proton uses CUPTI: GPU kernels are not recorded until it has finished"]


def test_another_tool_may_be_there_first(scene: Scene, tool: str) -> None:
    shared = scene("shared_from_the_start", env={"TOOL": str(TOOLS[tool])})
    assert json.loads(shared.outcome.stdout) == [30, 30 if tool == "Proton" else 0]
    assert Counter(joined(shared.process, "kernels")["launched"]) == {"little": 10}
    assert shared.notes == [f"{tool} uses CUPTI: GPU kernels are not recorded until it has finished"]


def test_another_tool_may_lend_more_buffers_than_we_keep_apart(scene: Scene) -> None:
    many = scene("shared_with_one_of_many_buffers", env={"TOOL": str(TOOLS["Proton"]), "TOOL_BUFFER_BYTES": "256"})
    assert json.loads(many.outcome.stdout) == 0, "all came back to it, and none to us"


def test_another_user_has_left_when_none_of_its_activity_is_on(scene: Scene) -> None:
    by_context = scene("shared_by_context")
    assert Counter(joined(by_context.process, "kernels")["launched"]) == {"little": 10}


def test_a_program_without_cuda_does_not_wait(scene: Scene, tool: str) -> None:
    unused = scene("tool_without_cuda", env={"TOOL": str(TOOLS[tool])})
    assert json.loads(unused.outcome.stdout) is False


def test_another_tool_may_stay_to_the_end(scene: Scene, tool: str) -> None:
    shared = scene("shared_to_the_end", env={"TOOL": str(TOOLS[tool])})
    assert Counter(joined(shared.process, "kernels")["launched"]) == {"little": 10}


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_another_tool_may_come_and_go_while_threads_launch(scene: Scene, tool: str, sampling: int) -> None:
    shared = scene("shared_while_busy", gpu_sampling=sampling, env={"TOOL": str(TOOLS[tool])})
    assert json.loads(shared.outcome.stdout) is True
    kernels = shared.process.table("kernels")
    assert kernels.join(shared.process.table("launches"), on="correlation").height > 0.9 * kernels.height > 0


def test_another_tool_may_come_in_the_middle_of_a_call(scene: Scene, tool: str) -> None:
    shared = scene("shared_in_the_middle_of_a_call", env={"TOOL": str(TOOLS[tool])})
    assert Counter(joined(shared.process, "kernels")["launched"])["little"] == 10


def test_a_recording_from_inside_steps_aside_for_a_tool_that_is_linked_with_cupti(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL", str(FAKES / "tools" / "libtorch_tool.so"))
    (process,) = inside("from_inside_beside_a_tool", tmp_path / "only")
    assert Counter(joined(process, "kernels")["launched"]) == {"little": 20}


def test_another_tool_with_cupti_is_noted(scene: Scene) -> None:
    result = scene("split", env={"FAKE_CUPTI_TAKEN": "1"})
    assert result.notes == ["another tool uses CUPTI in this program: GPU kernels are not recorded"]


def test_a_tool_in_our_variable_is_noted(scene: Scene) -> None:
    result = scene("split", env={"CUDA_INJECTION64_PATH": "/opt/nsight/libToolsInjection64.so"})
    assert result.notes == [
        "CUDA loaded /opt/nsight/libToolsInjection64.so in our place (CUDA_INJECTION64_PATH): GPU kernels are not recorded"
    ]
