"""Steps of inference from recorded calls of models, whose number and inputs are given."""

from __future__ import annotations

from pathlib import Path

import pytest
from written_programs import TRAIN, Program

from aiflame.attribute.meaning.context import of_devices, of_samples, profile_steps
from aiflame.attribute.meaning.phases import NAMES, Phase

PREFILL, DECODE = int(Phase.PREFILL), int(Phase.DECODE)


def found(program: Program, path: Path) -> list[tuple[int, int, int]]:
    """Phase, sequences and tokens of each step."""
    return profile_steps(program.profile(path)).rows.sort("step").select("phase", "sequences", "tokens").rows()


def generate(program: Program, decodes: int, sequences: int = 2) -> None:
    """As transformers does: the first call is given the prompt, the others one token of each sequence; tokens are chosen in between."""
    for tokens in (20, *[1] * decodes):
        program.infer(sequences=sequences, tokens=sequences * tokens)
        program.launch(TRAIN, "at::_ops::argmax::call")


def test_each_call_of_the_model_is_a_step_the_first_of_a_request_a_prefill(tmp_path: Path) -> None:
    program = Program()
    for decodes in (5, 3):
        generate(program, decodes)
    assert found(program, tmp_path) == [(PREFILL, 2, 40), *[(DECODE, 2, 2)] * 5, (PREFILL, 2, 40), *[(DECODE, 2, 2)] * 3]


def test_a_step_lasts_until_the_next_token_is_decoded(tmp_path: Path) -> None:
    """The last of a request ends with its call."""
    program = Program()
    generate(program, 3)
    launches = of_devices(program.profile(tmp_path)).launches.sort("id")
    assert launches["step"].to_list() == [0, 0, 1, 1, 2, 2, 3, -1]
    names = [NAMES[Phase(phase)] for phase in launches["phase"].to_list()]
    assert names == ["Prefill", "Prefill", *["Decode"] * 5, "Other"]


def test_samples_lie_in_the_steps_and_phases_of_a_program_without_a_gpu(tmp_path: Path) -> None:
    program = Program()
    generate(program, 3)
    program.tables["launches"], program.kernels = [], []
    samples = of_samples(program.profile(tmp_path), 0).samples.sort("id")
    assert samples["step"].to_list() == [0, 1, 2, 3]
    assert samples["phase"].to_list() == [PREFILL, DECODE, DECODE, DECODE]


def test_a_batch_that_changes_in_each_step_reads_prompts_while_others_decode(tmp_path: Path) -> None:
    program = Program()
    given = [(2, 50), (3, 30), (3, 3), (3, 3), (2, 2), (2, 2)]
    for sequences, tokens in given:
        program.infer(sequences=sequences, tokens=tokens)
    assert [phase for phase, *_ in found(program, tmp_path)] == [PREFILL, PREFILL, *[DECODE] * 4]


@pytest.mark.parametrize("tokens", [[20] * 6, list(range(20, 26)), [0] * 6, [1] * 6, [20, 20, 20, 1, 20, 1]])
def test_calls_that_are_no_prompt_with_tokens_after_it_are_just_steps(tmp_path: Path, tokens: list[int]) -> None:
    """Scoring of batches; a loop that keeps no keys and values; other inputs; no prompt; few single tokens."""
    program = Program()
    for given in tokens:
        program.infer(sequences=int(given > 0), tokens=given)
    assert [phase for phase, *_ in found(program, tmp_path)] == [0] * 6


def test_an_encoder_reads_the_prompt_of_its_decoder(tmp_path: Path) -> None:
    program = Program()
    for decodes in (4, 4, 4):
        program.infer("encoder", 1, 20)
        for _ in range(decodes):
            program.infer("decoder", 1, 1)
    assert [phase for phase, *_ in found(program, tmp_path)] == [PREFILL, *[DECODE] * 4] * 3


def test_the_model_that_takes_most_of_the_time_has_the_steps(tmp_path: Path) -> None:
    """A draft model guesses tokens that the model checks: several at once, so which steps decode is not said."""
    program = Program()
    program.infer("model", 1, 20, launches=50)
    for guesses in (3, 5, 2, 4):
        for _ in range(guesses):
            program.infer("draft", 1, 1)
        program.infer("model", 1, guesses + 1, launches=50)
    assert found(program, tmp_path) == [(0, 1, 20), (0, 1, 4), (0, 1, 6), (0, 1, 3), (0, 1, 5)]


def test_models_that_take_turns_make_one_step(tmp_path: Path) -> None:
    program = Program()
    for _ in range(4):
        program.infer("embedding", 1, 20)
        program.infer("ranker", launches=5)
    assert len(found(program, tmp_path)) == 4


def test_no_step_where_several_models_share_the_time(tmp_path: Path) -> None:
    program = Program()
    for model in "abcacbbcaacb":
        program.infer(model)
    assert found(program, tmp_path) == []


def test_no_step_where_most_work_is_elsewhere(tmp_path: Path) -> None:
    """A program that calls a small model now and then."""
    program = Program()
    for _ in range(10):
        program.infer()
        for _ in range(3):
            program.launch(TRAIN, "at::_ops::sort::call")
    assert found(program, tmp_path) == []


def test_no_step_where_several_threads_infer(tmp_path: Path) -> None:
    program = Program()
    other = program.thread("worker")
    for _ in range(4):
        program.infer()
        program.infer(thread=other)
    assert found(program, tmp_path) == []


def test_a_training_keeps_its_steps_though_it_calls_a_small_module_often(tmp_path: Path) -> None:
    program = Program()
    for _ in range(3):
        for _ in range(100):
            program.infer("small", 1, 1)
        program.forward("model")
        program.backward()
        program.optimizer()
    assert found(program, tmp_path) == [(0, 0, 0)] * 3
