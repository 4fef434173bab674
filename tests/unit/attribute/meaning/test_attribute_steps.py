"""Steps: work that a program does again and again; no steps where that is not clear."""

from __future__ import annotations

from pathlib import Path

import pytest
from written_programs import CALL_IMPL, OPTIMIZER_STEP, SCALER_STEP, TRAIN, Program

from aiflame.attribute.meaning.context import of_devices, of_samples


def steps(program: Program, path: Path) -> list[int]:
    """The step of each launch, -1 for none."""
    profile = program.profile(path)
    return of_devices(profile).launches.sort("id")["step"].to_list()


def train(program: Program, optimizer: int = 0xA) -> None:
    """Four launches."""
    program.forward("model", "model/a")
    program.forward("model", "model/b")
    program.backward(1)
    program.optimizer(optimizer)


def test_a_step_ends_where_the_optimizers_does(tmp_path: Path) -> None:
    program = Program()
    for _ in range(3):
        train(program)
    assert steps(program, tmp_path) == [0] * 4 + [1] * 4 + [2] * 4


def test_gradient_accumulation_is_one_step(tmp_path: Path) -> None:
    program = Program()
    for _ in range(2):
        for _ in range(3):
            program.forward("model")
            program.backward()
        program.optimizer()
    assert steps(program, tmp_path) == [0] * 7 + [1] * 7


def test_optimizers_that_take_turns_make_one_step(tmp_path: Path) -> None:
    """A GAN: the discriminator's optimizer, then the generator's."""
    program = Program()
    for _ in range(3):
        train(program, 0xA)
        train(program, 0xB)
    assert steps(program, tmp_path) == [0] * 8 + [1] * 8 + [2] * 8


def test_an_optimizer_may_be_called_more_often_in_a_turn(tmp_path: Path) -> None:
    program = Program()
    for _ in range(3):
        for optimizer in (0xA, 0xA, 0xA, 0xB):
            train(program, optimizer)
    assert steps(program, tmp_path) == [0] * 16 + [1] * 16 + [2] * 16


def test_optimizers_of_one_stage_after_the_other_take_no_turns(tmp_path: Path) -> None:
    program = Program()
    for optimizer in (0xA, 0xA, 0xA, 0xB, 0xB, 0xB):
        train(program, optimizer)
    assert steps(program, tmp_path) == [step for step in range(6) for _ in range(4)]


def test_two_optimizers_after_one_backward_are_one_step(tmp_path: Path) -> None:
    program = Program()
    for _ in range(3):
        train(program, 0xA)
        program.optimizer(0xB)
    assert steps(program, tmp_path) == [0] * 5 + [1] * 5 + [2] * 5


def test_an_optimizer_that_was_only_set_up_ends_no_step(tmp_path: Path) -> None:
    """The same one: its first call had no gradients; another one: called once."""
    program = Program()
    program.optimizer(0xA)
    program.optimizer(0xC)
    for _ in range(3):
        train(program, 0xA)
    assert steps(program, tmp_path) == [-1, -1, *[0] * 4, *[1] * 4, *[2] * 4]


def test_evaluation_in_between_is_in_no_step(tmp_path: Path) -> None:
    program = Program()
    train(program)
    train(program)
    for _ in range(5):
        program.forward("model", grad=False)
        program.launch(TRAIN, name="accuracy")
    program.data()
    train(program)
    program.forward("model", grad=False)
    assert steps(program, tmp_path) == [0] * 4 + [1] * 4 + [-1] * 10 + [2] * 4 + [-1]


def test_launches_show_evaluation_where_calls_of_layers_are_recorded_too(tmp_path: Path) -> None:
    """The recorded calls are only those that make nodes of the backward pass."""
    program = Program()
    for training in (True, True, False, True):
        if training:
            with program.called("model", grad=True):
                program.forward("model")
            program.backward()
            program.optimizer()
        else:
            program.forward("model", grad=False)
    assert steps(program, tmp_path) == [0] * 3 + [1] * 3 + [-1] + [2] * 3


def test_evaluation_before_training_is_in_no_step(tmp_path: Path) -> None:
    program = Program()
    for _ in range(3):
        program.forward("model", grad=False)
    train(program)
    train(program)
    assert steps(program, tmp_path) == [-1] * 3 + [0] * 4 + [1] * 4


def test_a_teacher_that_runs_before_the_model_in_each_step_belongs_to_it(tmp_path: Path) -> None:
    program = Program()
    for _ in range(3):
        program.forward("teacher", grad=False)
        program.forward("teacher", grad=False)
        train(program)
    assert steps(program, tmp_path) == [0] * 6 + [1] * 6 + [2] * 6


def test_the_first_step_begins_with_the_data_for_its_first_layer(tmp_path: Path) -> None:
    program = Program()
    program.launch(TRAIN, name="init")
    program.data()
    program.launch(TRAIN, name="HOST_TO_DEVICE")
    train(program)
    train(program)
    assert steps(program, tmp_path) == [-1, *[0] * 5, *[1] * 4]


def test_without_layers_the_first_step_begins_with_the_first_autograd_node_that_it_uses(tmp_path: Path) -> None:
    program = Program()
    program.sequence = 1
    for _ in range(3):
        program.launch(TRAIN, "at::_ops::randn::call")
    for _ in range(2):
        program.forward()
        program.forward()
        program.backward(2)
        program.optimizer()
    assert steps(program, tmp_path) == [-1] * 3 + [0] * 5 + [1] * 5


def test_a_step_that_is_cut_off_counts_when_it_came_to_backward(tmp_path: Path) -> None:
    program = Program()
    for finished in (True, True, False):
        for _ in range(4):
            program.forward("model", "model/a")
        program.backward(4 if finished else 1)
        if finished:
            program.optimizer()
    assert steps(program, tmp_path) == [0] * 9 + [1] * 9 + [2] * 5


@pytest.mark.parametrize("count", [1, 3])
def test_a_layers_work_without_gradients_is_no_evaluation(tmp_path: Path, count: int) -> None:
    """It scales its input."""
    program = Program()
    for _ in range(count):
        program.forward("model", grad=False)
        for _ in range(4):
            program.forward("model", "model/a")
        program.backward(4)
        program.optimizer()
    assert steps(program, tmp_path) == [step for step in range(count) for _ in range(10)]


def test_a_step_whose_optimizer_the_gradient_scaler_skipped_counts(tmp_path: Path) -> None:
    program = Program()
    for skipped in (False, True, False, True):
        program.forward("model")
        program.backward()
        program.launch(TRAIN, SCALER_STEP, name="found_inf")
        if not skipped:
            program.optimizer()
    assert steps(program, tmp_path) == [0] * 4 + [1] * 3 + [2] * 4 + [3] * 3


def test_threads_with_loops_of_their_own_have_steps_of_their_own(tmp_path: Path) -> None:
    program = Program()
    other = program.thread("second loop")
    for _ in range(2):
        program.forward("model")
        program.forward("other", thread=other, autograd=2)
        program.backward()
        program.launch("torch::autograd::Engine::x", thread=other, autograd=1 << 15 | 2)
        program.optimizer(0xA)
        program.optimizer(0xB, thread=other)
    assert steps(program, tmp_path) == [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3]


def test_backward_work_of_torchs_own_threads_belongs_to_the_step_of_the_thread_that_ran_forward(tmp_path: Path) -> None:
    program = Program()
    engine, watcher = program.thread("pt_autograd_0"), program.thread("watcher")
    for _ in range(2):
        program.forward("model")
        program.backward(thread=engine)
        program.launch("watch", thread=watcher, autograd=0)
        program.optimizer()
    assert steps(program, tmp_path) == [0] * 4 + [1] * 4


# Inference


def test_without_an_optimizer_each_call_of_the_outermost_layer_is_a_step(tmp_path: Path) -> None:
    program = Program()
    for _ in range(4):
        program.forward("model", "model/a", grad=False)
        program.forward("model", "model/b", grad=False)
        program.launch(TRAIN, name="argmax")
    assert steps(program, tmp_path) == [0, 0, -1, 1, 1, -1, 2, 2, -1, 3, 3, -1]


def test_calls_with_nothing_between_them_stay_two(tmp_path: Path) -> None:
    program = Program()
    for _ in range(4):
        program.forward("model", "model/a", grad=False)
        program.forward("model", "model/b", grad=False)
    assert steps(program, tmp_path) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_loop_inside_a_layer_is_no_step(tmp_path: Path) -> None:
    program = Program()
    for _ in range(3):
        for _ in range(4):
            program.forward("model", "model/cell", grad=False)
            program.forward("model", "model/cell", grad=False, op="at::_ops::tanh::call")
        program.forward("model", "model/head", grad=False)
    assert steps(program, tmp_path) == [-1] * 27


def test_layers_that_are_called_in_turns_are_one_step(tmp_path: Path) -> None:
    program = Program()
    for _ in range(3):
        program.forward("model", grad=False)
        program.forward("softmax", grad=False)
    assert steps(program, tmp_path) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("roots", ["a", "ab", "abcabacbcc", "abbacabccb"])
def test_work_that_does_not_repeat_clearly_is_no_step(tmp_path: Path, roots: str) -> None:
    """A single call; a server with mixed requests."""
    program = Program()
    for root in roots:
        program.forward(root, grad=False)
    assert set(steps(program, tmp_path)) == {-1}


def test_a_loop_without_layers_has_no_steps(tmp_path: Path) -> None:
    program = Program()
    for _ in range(10):
        program.launch(TRAIN, "matmul")
    assert set(steps(program, tmp_path)) == {-1}


def test_requests_that_several_threads_serve_are_no_steps(tmp_path: Path) -> None:
    program = Program()
    other = program.thread("worker")
    for _ in range(4):
        program.forward("model", grad=False)
        program.forward("model", grad=False, thread=other)
    assert set(steps(program, tmp_path)) == {-1}


# Programs without a GPU: few samples, but every call of a layer


def cpu_steps(program: Program, path: Path) -> list[int]:
    """The step of each CPU sample."""
    profile = program.profile(path)
    return of_samples(profile, 0).samples.sort("id")["step"].to_list()


def train_on_cpu(program: Program) -> None:
    """Two samples; backward is too short to be seen."""
    with program.called("model", grad=True):
        program.sample(TRAIN, CALL_IMPL, "layer model", autograd=1, sequence=program.sequence)
    with program.region("optimizer", 0xA):
        program.sample(TRAIN, OPTIMIZER_STEP, autograd=1)


def test_without_a_gpu_calls_of_layers_name_layers_that_samples_do_not(tmp_path: Path) -> None:
    """An optimizer that is set up, evaluation, and training after it."""
    program = Program()
    program.optimizer(0xA)
    program.tables["launches"], program.kernels = [], []
    for training in (True, True, False, True):
        if training:
            train_on_cpu(program)
        else:
            with program.called("model", grad=False):
                program.sample(TRAIN, CALL_IMPL, "layer model")
    assert cpu_steps(program, tmp_path) == [0, 0, 1, 1, -1, 2, 2]


def test_without_a_gpu_inference_is_the_calls_of_the_outermost_layer(tmp_path: Path) -> None:
    program = Program()
    for _ in range(3):
        with program.called("model", grad=False), program.called("model/layers.0", grad=False):
            program.sample(TRAIN, CALL_IMPL, "layer model")
        program.sample(TRAIN, "sleep")
    assert cpu_steps(program, tmp_path) == [0, -1, 1, -1, 2, -1]


def test_samples_of_a_program_with_a_gpu_have_the_steps_of_its_launches(tmp_path: Path) -> None:
    program = Program()
    for _ in range(2):
        train(program)
        program.sample(TRAIN)
    program.sample(TRAIN)
    train(program)
    assert cpu_steps(program, tmp_path) == [1, 2, 2]
