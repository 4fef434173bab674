"""The program's own launch hooks, and errors raised behind a launch: as without a recording."""

from __future__ import annotations

import functools
from typing import Any

import pytest

triton = pytest.importorskip("triton")

from intra_program import Program  # noqa: E402

from aiflame.intra import device, runtime  # noqa: E402


def test_a_launched_kernel_is_not_launched_again(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.Pool, "copy_out", lambda *_: 1 // 0)
    program.record(every=1)
    assert program.launch(times=2) == [True, True]
    assert "division" in program.notes[-1]


class Hooks:
    """A program's own around its launches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.raising = ""
        self.error: type[BaseException] = ZeroDivisionError
        for when in ("enter", "exit"):
            chain = triton.knobs.HookChain()
            chain.add(functools.partial(self._call, when))
            monkeypatch.setattr(triton.knobs.runtime, f"launch_{when}_hook", chain)

    def _call(self, when: str, metadata: Any) -> None:
        self.calls.append(f"{when} {metadata.get()['name']}")
        if when == self.raising:
            raise self.error(f"of {when}")


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Hooks:
    return Hooks(monkeypatch)


class TestHooksOfTheProgramsOwn:
    def test_are_called_around_a_twin_as_around_any_kernel(self, program: Program, hooks: Hooks) -> None:
        program.record()
        assert program.launch(times=3) == [True, True, False]
        assert hooks.calls == ["enter add", "exit add"] * 3

    @pytest.mark.parametrize("recorded", [False, True])
    @pytest.mark.parametrize(("raising", "calls", "launches"), [("enter", ["enter add"], 0), ("exit", ["enter add", "exit add"], 1)])
    def test_raise_to_the_program_and_nothing_is_launched_twice(
        self, program: Program, hooks: Hooks, recorded: bool, raising: str, calls: list[str], launches: int
    ) -> None:
        if recorded:
            program.record(every=1)
        hooks.raising = raising
        with pytest.raises(ZeroDivisionError, match=f"of {raising}"):
            program.launch()
        assert (hooks.calls, len(program.driver.launched)) == (calls, launches)
        hooks.raising = ""
        assert program.launch() == [recorded]
        assert not recorded or len(program.end().launches) == launches + 1
        assert program.notes == []

    def test_are_called_once_where_a_twin_cannot_be_launched(self, program: Program, hooks: Hooks) -> None:
        program.record()
        program.driver.too_large = True
        assert program.launch() == [False]
        assert hooks.calls == ["enter add", "exit add"]

    @pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
    def test_have_memory_given_back_when_they_let_no_launch_be(self, program: Program, hooks: Hooks, error: type[BaseException]) -> None:
        program.record(every=1)
        hooks.raising, hooks.error = "enter", error
        for _ in range(2 * runtime.SLOTS):
            with pytest.raises(error):
                program.launch()
        assert program.cuda.calls.count("cuMemAlloc_v2") == 1


def test_an_error_that_a_launcher_raises_after_a_launch_reaches_the_program(program: Program) -> None:
    program.record(every=1)
    program.driver.after_launch = ZeroDivisionError("late")
    with pytest.raises(ZeroDivisionError, match="late"):
        program.launch()
    assert len(program.driver.launched) == 1
    program.driver.after_launch = None
    assert program.launch() == [True]
    assert program.cuda.calls.count("cuMemAlloc_v2") == 2, "the first may still be written to"
