"""Classifies work: phases by stacks and by the work before and after, and trees grouped by meaning, whose totals never change."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from profiles import as_sealed_before
from trees import is_sound
from written_programs import BACKWARD, CALL_IMPL, FETCH, MM, OPTIMIZER_STEP, TENSOR_BACKWARD, TORCH, TRAIN, Program, train, training

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.groupings import PREFIXES
from aiflame.attribute.meaning.context import of_devices
from aiflame.attribute.meaning.phases import NAMES, Phase
from aiflame.attribute.metrics import OF_GPU
from aiflame.attribute.tree import Tree
from aiflame.attribute.trees.build import tree
from aiflame.errors import AiflameError
from aiflame.exchange.writers import collapsed

PROCESS = "train.py (4711)"


def lines(of: Tree, metric: str = "gpu-time") -> dict[str, int]:
    text = io.StringIO()
    collapsed.write(of, metric, text)
    return {path.removeprefix(f"{PROCESS};"): int(value) for path, value in (line.rsplit(" ", 1) for line in text.getvalue().splitlines())}


def phases(program: Program, path: Path) -> list[str]:
    """The phase of each launch."""
    profile = program.profile(path)
    return [NAMES[Phase(phase)] for phase in of_devices(profile).launches.sort("id")["phase"]]


# Phases


def test_a_step_goes_through_its_phases(tmp_path: Path) -> None:
    program = Program()
    for _ in range(2):
        train(program)
    stacks = lines(tree(program.profile(tmp_path), "gpu-time", by="phase"))
    by_phase = Counter[str]()
    for path, value in stacks.items():
        by_phase[path.split(";")[0]] += value
    del by_phase["[GPU idle]_[G]"], by_phase["[GPU idle]"]
    assert by_phase == {"Data loading": 2, "Forward": 4, "Backward": 2, "Optimizer": 4}


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        ((TENSOR_BACKWARD, "cublas"), "Backward"),
        (("torch::autograd::Engine::thread_main", "cublas"), "Backward"),
        ((TENSOR_BACKWARD, CALL_IMPL, "layer model"), "Backward"),
        ((OPTIMIZER_STEP, ("closure", "/app/train.py"), CALL_IMPL, "layer model"), "Forward"),
        ((OPTIMIZER_STEP, ("closure", "/app/train.py"), TENSOR_BACKWARD), "Backward"),
        ((TENSOR_BACKWARD, ("hook", "/app/train.py"), OPTIMIZER_STEP), "Optimizer"),
        ((("Optimizer.zero_grad", TORCH + "optim/optimizer.py"),), "Optimizer"),
        ((("AdamW.__init__", TORCH + "optim/adamw.py"),), "Other"),
        ((("<module>", TORCH + "distributed/fsdp/__init__.py"),), "Other"),
        ((OPTIMIZER_STEP, ("<module>", TORCH + "distributed/fsdp/__init__.py")), "Optimizer"),
        ((("GradScaler.update", TORCH + "amp/grad_scaler.py"),), "Optimizer"),
        ((("GradScaler.scale", TORCH + "amp/grad_scaler.py"),), "Other"),
        ((("backward", TORCH + "autograd/__init__.py"),), "Backward"),
        ((("backward", "/app/backward.py"),), "Other"),
        ((("Function.apply", TORCH + "autograd/function.py"),), "Other"),
        ((FETCH, ("Dataset.__getitem__", "/app/data.py")), "Data loading"),
        ((FETCH, CALL_IMPL, "layer tokenizer"), "Data loading"),
        ((("all_reduce", TORCH + "distributed/distributed_c10d.py"),), "Communication"),
        (("c10d::Reducer::all_reduce_bucket",), "Communication"),
        (("pybind11::class_<c10d::ProcessGroup>::def",), "Other"),
        ((TENSOR_BACKWARD, "torch::autograd::Engine::x", "c10d::Reducer::autograd_hook"), "Communication"),
        ((("FullyShardedDataParallel.forward", TORCH + "distributed/fsdp/x.py"), CALL_IMPL, "layer model"), "Forward"),
        ((("dispatch", TORCH + "distributed/tensor/_dispatch.py"),), "Other"),
        (("matmul",), "Other"),
    ],
    ids=str,
)  # fmt: skip
def test_the_innermost_function_with_a_phase_counts(tmp_path: Path, frames: tuple[tuple[str, str] | str, ...], phase: str) -> None:
    """Forward work inside of backward is recomputed, or its user's own."""
    program = Program()
    program.launch(TRAIN, *frames)
    assert phases(program, tmp_path) == [phase]


def test_work_of_a_backward_node_is_backward_without_any_frame_of_the_engine(tmp_path: Path) -> None:
    """A stack that could not be unwound; a checkpoint that runs forward again."""
    program = Program()
    program.launch("cublas", autograd=BACKWARD | 1)
    program.launch(CALL_IMPL, "layer model", autograd=BACKWARD | 1)
    program.launch(OPTIMIZER_STEP, autograd=BACKWARD | 1)
    assert phases(program, tmp_path) == ["Backward", "Backward", "Optimizer"]


def test_work_of_a_foreign_optimizer_is_recognised_by_its_region(tmp_path: Path) -> None:
    program = Program()
    with program.region("optimizer", 0xA):
        program.launch(("step", "/app/my_optimizer.py"), "my_kernel")
    with program.region("data"):
        program.launch(("prefetch", "/app/loader.py"), "my_kernel")
    assert phases(program, tmp_path) == ["Optimizer", "Data loading"]


def test_before_backward_ops_of_a_step_are_forward_and_after_it_they_are_not(tmp_path: Path) -> None:
    program = Program()
    for _ in range(2):
        program.launch(TRAIN, MM)
        program.forward("model")
        program.launch(TRAIN, MM)
        program.backward()
        program.launch(TRAIN, MM)
        program.optimizer()
    first, *later = phases(program, tmp_path)
    step = ["Forward", "Forward", "Forward", "Backward", "Other", "Optimizer"]
    assert (first, later) == ("Other", step[1:] + step)


def test_copies_to_the_device_before_forward_work_load_data(tmp_path: Path) -> None:
    program = Program()
    program.launch(TRAIN, name="HOST_TO_DEVICE")
    for _ in range(2):
        program.data()
        for _ in range(2):  # gradients are accumulated
            program.launch(TRAIN, name="HOST_TO_DEVICE")
            program.forward("model")
            program.launch(TRAIN, name="HOST_TO_DEVICE")
            program.launch(TRAIN, name="DEVICE_TO_HOST")
            program.backward()
        program.optimizer()
    stacks = lines(tree(program.profile(tmp_path), "gpu-time", by="phase"))
    copies = {path: count for path, count in stacks.items() if "copy" in path}
    assert copies == {
        "Data loading;[copy host→device]_[G]": 4, "Other;[copy host→device]_[G]": 5, "Other;[copy device→host]_[G]": 4
    }  # fmt: skip


def test_collectives_are_communication_wherever_they_are_launched_from(tmp_path: Path) -> None:
    program = Program()
    program.launch(TENSOR_BACKWARD, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL")
    assert lines(tree(program.profile(tmp_path), "gpu-time", by="phase")) == {
        "Communication;ncclDevKernel_AllReduce_Sum_bf16_RING_LL_[G]": 1
    }


# Graphs


def test_a_replayed_graph_has_the_layers_of_its_capture_and_the_step_of_its_replay(tmp_path: Path) -> None:
    program = Program()
    forward = program.stack(TRAIN, CALL_IMPL, "layer model", CALL_IMPL, "layer model/layers.0", MM)
    back = program.stack(TRAIN, TENSOR_BACKWARD, "torch::autograd::Engine::x", MM)
    loss = program.stack(TRAIN, "at::_ops::nll_loss::call")
    for node, (stack, autograd) in enumerate(((forward, 1), (loss, 1), (back, BACKWARD | 1)), 1):
        program.tables["graph_nodes"].append({"node": node, "thread": 1, "stack": stack, "time_ns": 900 + node, "autograd": autograd})
        program.tables["graph_nodes"].append({"node": node + 10, "original": node})
    for _ in range(2):
        for node in (11, 12, 13):
            program.launch(TRAIN, "cudaGraphLaunch", name="graphed", node=node)
        program.forward("model", "model/head")
        program.backward()
        program.optimizer()
    recorded = program.profile(tmp_path)
    stacks = lines(tree(recorded, "gpu-time", by="step"))
    graphed = sorted(path for path in stacks if path.endswith(";graphed_[G]") and path.startswith("Step.1"))
    assert [path.split(";")[1] for path in graphed] == ["Backward", "Forward", "Forward"]
    assert "layers.0" in graphed[2 if "nll_loss" in graphed[1] else 1]


# Groupings


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return Analysis(training(tmp_path_factory.mktemp("trained")))


@pytest.mark.parametrize("by", PREFIXES)
@pytest.mark.parametrize("metric", ["cpu-time", "gpu-time", "gpu-stalls", "bytes"])
def test_no_grouping_changes_a_total(trained: Analysis, by: str, metric: str) -> None:
    if by == "category" or (by == "family" and metric not in OF_GPU):
        with pytest.raises(AiflameError, match=r"families group GPU kernels|categories group memory"):
            tree(trained, metric, by)
        return
    for detail in ("function", "instruction") if metric in OF_GPU else ("function",):
        grouped, by_code = tree(trained, metric, by, detail), tree(trained, metric, "code", detail)
        assert is_sound(grouped)
        assert {name: grouped.total(name) for name in grouped.values} == {name: by_code.total(name) for name in by_code.values}
    assert by_code.total(metric) > 0


def test_by_region_the_code_stays(trained: Analysis) -> None:
    stacks = lines(tree(trained, "gpu-time", by="region"))
    assert stacks["warm-up;main thread;py::train;-;init_[G]"] == 1
    assert stacks["[no region];main thread;py::train;py::AdamW.step;-;adam_[G]"] == 2
    assert stacks["[no region];[unattributed: no launch];adam_[G]"] == 1


def test_by_step_a_kernel_lies_under_its_step_phase_layer_and_op(trained: Analysis) -> None:
    stacks = lines(tree(trained, "gpu-time", by="step"))
    assert stacks["Step.1;Forward;layers.0;aten::addmm;kernel_[G]"] == 1
    assert stacks["Step.1;Forward;[no layer];aten::nll_loss;loss_[G]"] == 1
    assert stacks["Step.1;Backward;layers.0;aten::addmm (backward);kernel_[G]"] == 1
    assert stacks["Step.1;Optimizer;adam_[G]"] == 1
    assert stacks["[no step];Other;init_[G]"] == 1


def test_cpu_time_lies_under_the_same_with_the_innermost_function(trained: Analysis) -> None:
    stacks = lines(tree(trained, "cpu-time", by="phase"), "cpu-time")
    assert stacks == {"Forward;aten::mm;at::_ops::mm::call": 14, "Backward;aten::mm;at::_ops::mm::call": 14, "Other;py::train": 14}


def test_by_family_kernels_lie_under_their_task(trained: Analysis) -> None:
    stacks = lines(tree(trained, "gpu-time", by="family"))
    assert stacks["copy;[copy host→device]_[G]"] == 3


def test_absent_steps_ops_and_regions_add_no_frames(tmp_path: Path) -> None:
    """A program without steps, layers, ops and regions."""
    program = Program()
    program.launch(TRAIN, "main")
    recorded = program.profile(tmp_path)
    by_grouping = {by: lines(tree(recorded, "gpu-time", by=by)) for by in ("layer", "step", "op", "region")}
    assert by_grouping == {
        "layer": {"Other;kernel_[G]": 1}, "step": {"Other;kernel_[G]": 1}, "op": {"kernel_[G]": 1},
        "region": {"main thread;py::train;main;-;kernel_[G]": 1},
    }  # fmt: skip


OLD_TABLES = (
    *("processes", "threads", "thread_ends", "codes", "symbols", "stacks"),
    *("launches", "kernels", "kernel_shapes", "cpu_samples", "copies"),
)


def test_a_profile_of_before_has_groupings_too(tmp_path: Path) -> None:
    """Its tables have no columns of autograd, and no regions or layers."""
    recorded = training(tmp_path)
    total = tree(recorded, "gpu-time").total("gpu-time")
    autograd = ("autograd", "sequence")
    old = Analysis(as_sealed_before(recorded, OLD_TABLES, launches=(*autograd, "variant"), cpu_samples=autograd))
    for by in PREFIXES.keys() - {"category"}:
        assert tree(old, "gpu-time", by).total("gpu-time") == total
