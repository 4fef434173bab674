"""Without markers, aiflame finds the same as with markers placed by hand: examples/llama and its twin."""

from __future__ import annotations

from pathlib import Path

from recording import PYTHON, Recorder
from torch_programs import needs_torch
from twin import cpu_agreement

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.context import profile_steps

pytestmark = needs_torch
LLAMA = Path(__file__).parents[2] / "examples" / "llama"
STEPS = 60
SMALL = ("--device", "cpu", "--steps", str(STEPS), "--layers", "4", "--batch", "4", "--width", "128", "--tokens", "64")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""As on the single core of a timed test. Where others have the CPUs, two threads that spin for each other take minutes."""


def test_steps_phases_and_layers_are_where_the_markers_say(record: Recorder) -> None:
    run = record(PYTHON, LLAMA / "train_llama_marked.py", "--markers", "itt", *SMALL, options=("--cpu-rate", "1999"), env=ONE_THREAD)
    assert run.status == 0, run.stderr
    agreement = cpu_agreement(run.profile().store)
    assert agreement.items > 200
    # Each sample is one of a few hundred: three standard deviations of an error rate of one in a hundred.
    wrong = (1 - agreement.all) * agreement.items
    assert wrong <= 0.01 * agreement.items + 3 * (0.01 * agreement.items) ** 0.5, agreement.differing


def test_the_path_of_a_step_appears_without_a_marker(record: Recorder) -> None:
    run = record(PYTHON, LLAMA / "train_llama.py", *SMALL, options=("--cpu-rate", "999"), env=ONE_THREAD)
    assert run.status == 0, run.stderr
    profile = run.profile()
    assert len(profile_steps(Analysis.of(profile.store)).rows) == STEPS
    tree = profile.tree("cpu-time", by="step")
    names_of = tree.frames["name"].to_list()
    paths = set()
    for node in range(1, len(tree)):
        path, at = [], node
        while at > 0:
            path.append(names_of[tree.frame[at]])
            at = int(tree.parent[at])
        paths.add(tuple(reversed(path))[1:5])
    shown = {path[0] for path in paths if path and path[0].startswith("Step.")}
    assert shown <= {f"Step.{number}" for number in range(STEPS)}
    assert len(shown) > STEPS / 4, "on a busy machine there may be a step in which no tick comes"
    for phase in ("Forward", "Backward"):  # a short stay in a layer may have no sample in one step
        assert any(path[1:4] == (phase, "layers.3", "attn") for path in paths), phase
