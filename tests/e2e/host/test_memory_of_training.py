"""Host memory of a training with known sizes: bytes by category, layer and line."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from recording import PYTHON, all_findings, recorder
from torch_programs import needs_torch, program

import aiflame
from aiflame.analyze.memory.growth import growth
from aiflame.analyze.memory.what_if import FRESH_GRADIENTS, FUSED, HALF_BATCH, Estimate, checkpoints, estimates
from aiflame.analyze.top import top
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.trees.build import tree
from aiflame.errors import AiflameError
from aiflame.exchange.writers.torch_memory import write

pytestmark = needs_torch

WIDTH, INNER, BATCH, LAYERS = 256, 1024, 2048, 4
STEPS = 12
KEPT = 1 << 20
TRAINING = f"""
import torch

torch.set_num_threads(1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear({WIDTH}, {INNER}), torch.nn.Linear({INNER}, {WIDTH})

    def forward(self, value):
        return self.down(torch.relu(self.up(value)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range({LAYERS}))

    def forward(self, value):
        for layer in self.layers:
            value = layer(value)
        return value


def keep(history):
    history.append(torch.ones({KEPT // 4}))


def train():
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    history = []
    for step in range({STEPS}):
        optimizer.zero_grad()
        net(torch.randn({BATCH}, {WIDTH})).square().mean().backward()
        optimizer.step()
        keep(history)


train()
"""
KEEPS = TRAINING.splitlines().index(f"    history.append(torch.ones({KEPT // 4}))") + 1
PARAMETERS = 4 * LAYERS * (2 * WIDTH * INNER + WIDTH + INNER)
SAVED = 4 * BATCH * (INNER + WIDTH)
"""By a layer: the result of relu, and the input of the layer above or the result of the last one."""


def training(folder: Path, text: str) -> Profile:
    run = recorder(folder)(PYTHON, program(folder, text), options=("--host-memory", "--host-memory-every", "64K"))
    assert run.status == 0, run.stderr
    return run.profile()


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return training(tmp_path_factory.mktemp("host"), TRAINING)


def by(profile: Profile, grouping: str, metric: str = "host-bytes") -> dict[str, int]:
    return dict(top(tree(profile.store, metric, grouping), grouping, metric).select("name", "self").rows())


def test_every_byte_has_its_category(profile: Profile) -> None:
    """The peak lies in a backward pass, when all that layers saved is still there, or nearly all."""
    held = by(profile, "category")
    assert held["parameters"] == pytest.approx(PARAMETERS, rel=0.02)
    assert held["optimizer state"] == pytest.approx(2 * PARAMETERS, rel=0.02)
    assert held["activations saved for backward"] == pytest.approx(LAYERS * SAVED, rel=0.15)
    assert held["kept beyond the step"] == pytest.approx((STEPS - 1) * KEPT, abs=1.5 * KEPT)


def test_layers_have_what_they_allocated(profile: Profile) -> None:
    """Adam's state belongs to no layer; each layer has the parts of its activations that it made itself."""
    listed = top(tree(profile.store, "host-bytes", "layer"), "layer", "host-bytes")
    total = dict(listed.select("name", "total").rows())
    for number in range(LAYERS):
        assert total[f"layers.{number}"] == pytest.approx(SAVED, rel=0.35), "relu's result, and the linear's"


def test_the_line_that_keeps_a_tensor_in_each_step_is_named(profile: Profile) -> None:
    grows = [one for one in all_findings(profile) if one.kind == "memory-grows"]
    assert [one.view.place.rpartition("/")[2] for one in grows] == [f"program.py:{KEEPS}"]
    assert f" a step: memory from keep() (program.py:{KEEPS}) is never freed" in grows[0].sentence
    assert [one.pace for one in growth(Analysis(profile.store))] == [pytest.approx(KEPT, rel=0.1)]


def test_categories_are_of_memory_alone(profile: Profile) -> None:
    with pytest.raises(AiflameError, match="categories group memory, and cpu-time counts none"):
        profile.tree("cpu-time", by="category")


def test_torchs_own_viewer_reads_the_exported_snapshot(profile: Profile, tmp_path: Path) -> None:
    from torch.cuda import _memory_viz

    file = tmp_path / "snapshot.pickle"
    with file.open("wb") as data:
        write(profile.store, data, 0)
    snapshot = pickle.loads(file.read_bytes())
    assert _memory_viz.segsum(snapshot).startswith("Summary of segments")
    assert len(_memory_viz.trace_plot(snapshot)) > 1000
    again = aiflame.open(file)
    assert again.tree("gpu-bytes").total("gpu-bytes") == profile.tree("host-bytes").total("host-bytes")


def test_the_peak_with_checkpoints_is_estimated(profile: Profile, tmp_path: Path) -> None:
    """Against a training that has them. Imports differ, and do not count."""
    with_checkpoints = TRAINING.replace("import torch\n", "import torch\nfrom torch.utils.checkpoint import checkpoint\n").replace(
        "value = layer(value)", "value = checkpoint(layer, value, use_reentrant=False)"
    )
    other = training(tmp_path, with_checkpoints)
    estimate = checkpoints(Analysis(profile.store), "host-bytes")
    assert estimate is not None and estimate.group == "layers.*"
    now, then = (sum(held.values()) - held["imports"] for held in (by(profile, "category"), by(other, "category")))
    assert then < 0.8 * now, "there is something to win"
    assert now - (estimate.peak - estimate.then) == pytest.approx(then, rel=0.05)


def changed(profile: Profile, change: str) -> Estimate:
    (estimate,) = [one for one in estimates(Analysis(profile.store), "host-bytes") if one.change == change]
    return estimate


def is_right(estimate: Estimate, before: Profile, after: Profile, least: float = 0.8) -> None:
    """Imports differ, and do not count."""
    now, then = (sum(held.values()) - held["imports"] for held in (by(before, "category"), by(after, "category")))
    assert then < least * now, "there is something to win"
    assert now - (estimate.peak - estimate.then) == pytest.approx(then, rel=0.05)


def test_the_peak_with_half_the_batch_is_estimated(profile: Profile, tmp_path: Path) -> None:
    half = training(tmp_path, TRAINING.replace(f"torch.randn({BATCH}, ", f"torch.randn({BATCH // 2}, "))
    is_right(changed(profile, HALF_BATCH), profile, half)


def small(folder: Path, optimizer: str, *, keeps_gradients: bool = False) -> Profile:
    """A training of little data, whose peak lies in the optimizer, or in the backward pass if gradients are kept from step to step."""
    batch = BATCH // 2 if keeps_gradients else 16
    text = TRAINING.replace("Adam(net.parameters())", optimizer).replace(f"torch.randn({BATCH}, ", f"torch.randn({batch}, ")
    folder.mkdir()
    return training(folder, text.replace("zero_grad()", "zero_grad(set_to_none=False)") if keeps_gradients else text)


def test_the_peak_with_a_fused_optimizer_is_estimated(tmp_path: Path) -> None:
    each = small(tmp_path / "each", "Adam(net.parameters(), foreach=True)")
    fused = small(tmp_path / "fused", "Adam(net.parameters(), fused=True)")
    is_right(changed(each, FUSED), each, fused, 0.9)


def test_the_peak_with_gradients_freed_after_each_step_is_estimated(tmp_path: Path) -> None:
    kept = small(tmp_path / "kept", "SGD(net.parameters(), foreach=False)", keeps_gradients=True)
    (tmp_path / "fresh").mkdir()
    text = TRAINING.replace("Adam(net.parameters())", "SGD(net.parameters(), foreach=False)")
    fresh = training(tmp_path / "fresh", text.replace(f"torch.randn({BATCH}, ", f"torch.randn({BATCH // 2}, "))
    is_right(changed(kept, FRESH_GRADIENTS), kept, fresh, 0.9)


def test_the_list_that_keeps_the_tensors_is_named(profile: Profile) -> None:
    (grows,) = [one for one in all_findings(profile) if one.kind == "memory-grows"]
    assert grows.sentence.endswith("; it is held by history in train() of program.py (list of Tensor, 1 more a step)")
