"""Steps of programs with JAX from recorded calls of jitted functions, which are given."""

from __future__ import annotations

from pathlib import Path

from written_programs import TRAIN, Program

from aiflame.attribute.meaning.context import profile_steps


class Jitted(Program):
    """A call takes 10 ns; after each the program works for 10 ns. Functions are single letters."""

    def __init__(self) -> None:
        super().__init__()
        self.tables |= {"jit_calls": [], "jit_functions": []}

    def make(self, function: str, address: int) -> None:
        self.tables["jit_functions"].append(
            {"function": address, "name": function, "file": "/app/train.py", "line": 1, "time_ns": self.now}
        )

    def call(self, functions: str, thread: int = 1) -> None:
        for function in functions:
            begin = self.now + 1
            self.sample(TRAIN, thread=thread)
            row = {"thread": thread, "function": ord(function), "begin_ns": begin, "end_ns": self.now}
            self.tables["jit_calls"].append(row)
            self.sample(TRAIN, thread=thread)


def calls(functions: str, path: Path) -> list[str]:
    """The calls in each step, of a program that makes these calls."""
    program = Jitted()
    for function in sorted(set(functions)):
        program.make(function, ord(function))
    program.call(functions)
    begun = [row["begin_ns"] for row in program.tables["jit_calls"]]
    steps = profile_steps(program.profile(path)).rows.sort("step").select("begin_ns", "end_ns").rows()
    return ["".join(name for name, at in zip(functions, begun, strict=True) if begin <= at < end) for begin, end in steps]


def test_each_call_of_the_one_function_is_a_step(tmp_path: Path) -> None:
    assert calls("tttt", tmp_path) == ["t"] * 4


def test_a_step_lasts_until_the_next_call(tmp_path: Path) -> None:
    """JAX returns before the work is done. The last step ends with its call."""
    program = Jitted()
    program.make("t", ord("t"))
    program.call("ttt")
    begins = [row["begin_ns"] for row in program.tables["jit_calls"]]
    ends = [*begins[1:], program.tables["jit_calls"][-1]["end_ns"]]
    assert profile_steps(program.profile(tmp_path)).rows.select("begin_ns", "end_ns").rows() == list(zip(begins, ends, strict=True))


def test_functions_that_always_follow_belong_to_the_step(tmp_path: Path) -> None:
    assert calls("dsdsdsds", tmp_path) == ["ds"] * 4


def test_a_prompt_and_an_evaluation_are_in_no_step(tmp_path: Path) -> None:
    assert calls("pdsdsdspdsdsds", tmp_path) == ["ds"] * 6
    (tmp_path / "again").mkdir()
    assert calls("tttteettttee", tmp_path / "again") == ["t"] * 8


def test_no_step_where_nothing_repeats(tmp_path: Path) -> None:
    for number, functions in enumerate(("tt", "abcacbbcaacb", "t" + "e" * 30 + "t" + "f" * 29 + "t" + "g" * 28)):
        (tmp_path / str(number)).mkdir()
        assert calls(functions, tmp_path / str(number)) == []


def test_no_step_where_several_threads_repeat(tmp_path: Path) -> None:
    program = Jitted()
    other = program.thread("worker")
    program.make("t", ord("t"))
    for _ in range(4):
        program.call("t")
        program.call("t", thread=other)
    assert profile_steps(program.profile(tmp_path)).rows.is_empty()


def test_functions_of_one_place_are_one_function(tmp_path: Path) -> None:
    """A lambda that is jitted in each turn of a loop."""
    program = Jitted()
    for address in "abcd":
        program.make("lambda", ord(address))
        program.call(address)
    assert len(profile_steps(program.profile(tmp_path)).rows) == 4


def test_an_address_that_is_used_again_is_another_function(tmp_path: Path) -> None:
    """The first function has made way for another, which repeats."""
    program = Jitted()
    program.make("setup", ord("t"))
    program.call("t")
    program.make("train", ord("t"))
    program.call("tttt")
    assert len(profile_steps(program.profile(tmp_path)).rows) == 4
