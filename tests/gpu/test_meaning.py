"""Steps, phases and layers on a GPU: names worked out without markers against markers placed by hand (examples/llama)."""

from __future__ import annotations

from pathlib import Path

from gpu_runs import Recorder
from torch_programs import needs_torch
from twin import gpu_agreement, layers_known

pytestmark = needs_torch
LLAMA = Path(__file__).parents[2] / "examples" / "llama"
MARKED, UNMARKED = str(LLAMA / "train_llama_marked.py"), str(LLAMA / "train_llama.py")
STEPS = ("--steps", "20")


def test_steps_phases_and_layers_are_where_the_markers_say(record: Recorder) -> None:
    run = record(MARKED, *STEPS)
    assert run.result.status == 0, run.run.stderr
    agreement = gpu_agreement(run.profile.store)
    assert agreement.items > 20 * 100
    assert min(agreement.step, agreement.phase) >= 0.99, f"{agreement}"
    assert agreement.layer >= 0.95, f"{agreement}"


def test_layers_are_where_the_markers_say(record: Recorder) -> None:
    run = record(MARKED, *STEPS)
    agreement = gpu_agreement(run.profile.store)
    assert agreement.all >= 0.99, f"{agreement}"


def test_compiled_steps_and_phases_are_where_the_markers_say(record: Recorder) -> None:
    run = record(MARKED, "--compile", *STEPS, timeout=180)
    assert run.result.status == 0, run.run.stderr
    agreement = gpu_agreement(run.profile.store)
    assert min(agreement.step, agreement.phase) >= 0.95, f"{agreement}"
    assert layers_known(run.profile.store) >= 0.95


def test_the_path_of_a_step_appears_without_a_marker(record: Recorder) -> None:
    run = record(UNMARKED, *STEPS)
    assert run.result.status == 0, run.run.stderr
    tree = run.profile.tree("gpu-time", by="step")
    assert tree.total("gpu-time") == run.profile.tree("gpu-time").total("gpu-time")
    names = tree.frames["name"].to_list()
    paths = set()
    for node in range(1, len(tree)):
        path, at = [], node
        while at > 0:
            path.append(names[tree.frame[at]])
            at = int(tree.parent[at])
        paths.add(tuple(reversed(path))[1:5])
    for number in range(20):
        for phase in ("Forward", "Backward"):
            assert any(path[:4] == (f"Step.{number}", phase, "layers.3", "attn") for path in paths), (number, phase)
