"""`aiflame.region()`: the calls that it makes to the recorder's module, and that a program notices no difference."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
import types
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import aiflame
from aiflame.region import listening


class Bridge(types.ModuleType):
    """Keeps the calls that it gets, by thread."""

    def __init__(self) -> None:
        super().__init__("_aiflame")
        self.told: dict[str, list[str]] = {}

    def push(self, name: str, domain: str, category: str, color: int) -> int:
        self._tell("+" + "|".join([name, *filter(None, [domain, category, f"{color:x}" if color else ""])]))
        return 1

    def pop(self, domain: str) -> int:
        self._tell("-" + domain)
        return 1

    def _tell(self, what: str) -> None:
        self.told.setdefault(threading.current_thread().name, []).append(what)

    @property
    def all(self) -> str:
        return " ".join(self.told.get("MainThread", []))


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bridge]:
    ours = Bridge()
    monkeypatch.setitem(sys.modules, "_aiflame", ours)
    with listening():
        yield ours


def test_a_with_block_reports_its_beginning_and_its_end(bridge: Bridge) -> None:
    with aiflame.region("outer", domain="d", category="c", color=0xFF00FF00), aiflame.region("inner"):
        pass
    assert bridge.all == "+outer|d|c|ff00ff00 +inner - -d"


def test_an_exception_ends_it_and_goes_on(bridge: Bridge) -> None:
    with pytest.raises(KeyError), aiflame.region("a"):
        raise KeyError
    assert bridge.all == "+a -"


def test_one_object_may_be_entered_again_inside_itself(bridge: Bridge) -> None:
    again = aiflame.region("a")
    with again, again:
        pass
    assert bridge.all == "+a +a - -"


def test_a_region_is_made_once_a_name() -> None:
    first = aiflame.region("forward", domain="d")
    assert aiflame.region("forward", domain="d") is first
    others = [aiflame.region("forward"), aiflame.region("forward", domain="e"), aiflame.region("forward", domain="d", color=1)]
    assert len({id(one) for one in (first, *others)}) == 4


def same(value: int) -> int:
    return value


def test_a_function_decorated_before_a_recording_is_in_its_region_during_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = Bridge()
    monkeypatch.setitem(sys.modules, "_aiflame", bridge)
    function = aiflame.region("f")(same)
    assert function(1) == 1 and bridge.all == ""
    with listening():
        assert function(2) == 2
    assert function(3) == 3 and bridge.all == "+f -"


def test_each_call_of_a_decorated_function_is_a_region(bridge: Bridge) -> None:
    @aiflame.region("f")
    def function(first: int, *, second: int) -> int:
        """Adds up."""
        return first + second

    assert function(1, second=2) == 3
    assert (function.__name__, function.__doc__) == ("function", "Adds up.")
    assert bridge.all == "+f -"


def test_methods_can_be_decorated(bridge: Bridge) -> None:
    class Model:
        @aiflame.region("forward")
        def forward(self) -> Model:
            return self

        @staticmethod
        @aiflame.region("load")
        def load() -> str:
            return "loaded"

    model = Model()
    assert model.forward() is model and Model.load() == "loaded"
    assert bridge.all == "+forward - +load -"


def test_a_coroutine_is_in_its_region_while_it_runs_and_not_while_it_waits(bridge: Bridge) -> None:
    @aiflame.region("task")
    async def task(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    async def both() -> list[int]:
        return list(await asyncio.gather(task(2), task(1)))

    assert inspect.iscoroutinefunction(task)
    assert asyncio.run(both()) == [2, 1]
    assert bridge.all == " ".join(["+task -"] * 5)


def test_a_cancelled_coroutine_hears_of_it_in_its_region(bridge: Bridge) -> None:
    heard = []

    @aiflame.region("task")
    async def task() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.append(bridge.all)
            raise

    async def cancel() -> None:
        running = asyncio.ensure_future(task())
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel())
    assert heard == ["+task - +task"]


def test_a_generator_is_in_its_region_while_it_makes_a_value(bridge: Bridge) -> None:
    @aiflame.region("batches")
    def batches() -> Iterator[Any]:
        got = yield 1
        try:
            yield got
        except ValueError as error:
            yield str(error)

    assert inspect.isgeneratorfunction(batches)
    generator: Any = batches()
    assert [next(generator), generator.send("sent"), generator.throw(ValueError("thrown"))] == [1, "sent", "thrown"]
    assert next(generator, "over") == "over"
    assert bridge.all == " ".join(["+batches -"] * 4)


def test_a_generator_that_is_closed_ends_in_its_region(bridge: Bridge) -> None:
    ended = []

    @aiflame.region("batches")
    def batches() -> Iterator[int]:
        try:
            yield 1
        finally:
            ended.append(bridge.all)

    generator: Any = batches()
    next(generator)
    generator.close()
    assert ended == ["+batches - +batches"]


def test_an_asynchronous_generator_does_the_same_as_before(bridge: Bridge) -> None:
    ended = []

    @aiflame.region("stream")
    async def stream() -> AsyncIterator[Any]:
        try:
            await asyncio.sleep(0)
            got = yield 1
            yield got
        finally:
            ended.append(True)

    async def use() -> list[Any]:
        generator: Any = stream()
        values = [await generator.__anext__(), await generator.asend("sent")]
        await generator.aclose()
        return values + [value async for value in stream()]

    assert inspect.isasyncgenfunction(stream)
    assert asyncio.run(use()) == [1, "sent", 1, None]
    assert ended == [True, True]
    marks = bridge.told["MainThread"]
    assert marks == ["+stream", "-"] * (len(marks) // 2)


def test_threads_have_regions_of_their_own(bridge: Bridge) -> None:
    shared = aiflame.region("shared")
    inside = threading.Barrier(2)

    def work() -> None:
        with shared:
            inside.wait()

    threads = [threading.Thread(target=work, name=name) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bridge.told == {"a": ["+shared", "-"], "b": ["+shared", "-"]}


def test_a_region_may_outlive_the_recording_that_it_began_in(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Bridge()
    with listening():
        monkeypatch.setitem(sys.modules, "_aiflame", ours)
        with aiflame.region("a"):
            monkeypatch.delitem(sys.modules, "_aiflame")
    assert ours.all == "+a"


@pytest.mark.skipif("_aiflame" in sys.modules, reason="these tests are being recorded")
def test_nothing_is_reported_while_nobody_records(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Bridge()
    monkeypatch.setitem(sys.modules, "_aiflame", ours)
    with pytest.raises(RuntimeError), aiflame.region("a") as value:
        assert value is None
        raise RuntimeError("the program's own")

    @aiflame.region("f")
    def function() -> int:
        return 1

    assert function() == 1
    assert ours.told == {}


def test_a_name_is_a_text() -> None:
    with pytest.raises(TypeError, match="a region has a name"):
        aiflame.region(print)  # type: ignore[arg-type]


def test_importing_aiflame_brings_no_table_library() -> None:
    code = "import sys, aiflame, aiflame.region; print(sorted({'polars', 'numpy', 'inspect', 'asyncio', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
