"""Containers that get longer while memory grows, as Python code in the program finds them, with a stand-in for the collector's module."""

from __future__ import annotations

import collections
import functools
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

TARGET = Path(__file__).parents[3] / "src/aiflame/target"
MIB = 1 << 20
Row = tuple[Any, ...]
BLOCK = b"x" * 5000


class Program:
    """Steps of a program whose module is `train`, with a number of live bytes after each."""

    def __init__(self, growth: ModuleType, rows: list[Row], ours: Any) -> None:
        self.growth, self.rows, self._ours = growth, rows, ours
        self.module = ModuleType("train")
        self.module.__file__ = "/home/me/train.py"

    def define(self, text: str) -> dict[str, Any]:
        exec(compile(text, "/home/me/train.py", "exec"), self.module.__dict__)
        return self.module.__dict__

    def run(self, steps: int, each: Callable[[int], object], live: Callable[[int], int] = lambda step: step * MIB) -> None:
        for step in range(steps):
            each(step)
            self._ours.live_bytes = functools.partial(live, step + 1)
            self.growth.step_ended()

    def looked(self) -> bool:
        return "_aiflame_target.memory_holders" in sys.modules

    def holders(self) -> Any:
        """Loaded, with time enough, and for this module alone: tests are here, too."""
        holders: Any = importlib.import_module("_aiflame_target.memory_holders")
        holders.BUDGET_NS, holders.own_modules = 10**11, lambda: iter([("train", self.module.__dict__)])
        holders.is_own = lambda file: file == self.module.__file__
        return holders

    def held(self) -> dict[str, tuple[str, str, int]]:
        """The path: the variable's function, the type, and how many entries came."""
        return {row[1]: (row[2], row[4], row[6]) for row in self.rows}


def variable(frame: FrameType, place: int) -> object:
    code = frame.f_code
    names = (*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames), *code.co_freevars)
    return frame.f_locals.get(names[place])


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    rows: list[Row] = []
    clock = iter(range(1, 1 << 30))
    ours: Any = ModuleType("_aiflame")
    ours.features, ours.now_ns, ours.variable = 1 << 21, lambda: next(clock), variable
    ours.append, ours.note = lambda *row: rows.append(row), pytest.fail
    monkeypatch.setitem(sys.modules, "_aiflame", ours)
    package = ModuleType("_aiflame_target")
    package.__path__ = [str(TARGET)]
    monkeypatch.setitem(sys.modules, "_aiflame_target", package)
    names = ("memory_growth", "memory_holders", "memory_contents")
    for name in names:
        monkeypatch.delitem(sys.modules, f"_aiflame_target.{name}", raising=False)
    growth = importlib.import_module("_aiflame_target.memory_growth")
    program = Program(growth, rows, ours)
    monkeypatch.setitem(sys.modules, "train", program.module)
    monkeypatch.setattr(growth, "memory_holders", program.holders)
    growth.install(None)
    yield program
    for name in names:
        sys.modules.pop(f"_aiflame_target.{name}", None)


FORMS = """
import collections
class Trainer:
    seen = []
    def __init__(self): self.losses = []
class Slotted:
    __slots__ = ("kept", "empty")
    def __init__(self): self.kept = []
history, by_step, groups, last = [], {}, {"a": []}, collections.deque()
trainer, slotted = Trainer(), Slotted()
def closure():
    inner = []
    return lambda block: inner.append(block)
keep = closure()
def default(block, cache=[]): cache.append(block)
def generator():
    received = []
    while True: received.append((yield))
coroutine = generator(); next(coroutine)
texts, numbers, recent, fixed = [], [], collections.deque(maxlen=3), [b"y" * 5000]
def step(number, new):
    history.append(new()); by_step[number] = (number, new()); groups["a"].append([new()]); last.append(new())
    trainer.losses.append(new()); Trainer.seen.append(new()); slotted.kept.append({"x": new()})
    keep(new()); default(new()); coroutine.send(new())
    texts.append("short"); numbers.append(1.5); recent.append(new()); fixed[0] = new()
"""


def new() -> bytes:
    return bytes(bytearray(BLOCK))


def test_each_form_of_a_container_is_named_and_no_other(program: Program) -> None:
    names = program.define(FORMS)
    program.holders().MOST_ROWS = 99
    program.run(10, lambda step: names["step"](step, new))
    assert program.held() == {
        "history": ("", "list", 4),
        "by_step": ("", "dict", 4),
        "groups['a']": ("", "list", 4),
        "last": ("", "deque", 4),
        "trainer.losses": ("", "list", 4),
        "Trainer.seen": ("", "list", 4),
        "slotted.kept": ("", "list", 4),
        "keep()'s inner": ("", "list", 4),
        "default()'s cache": ("", "list", 4),
        "coroutine()'s received": ("", "list", 4),
    }
    row = next(row for row in program.rows if row[1] == "history")
    addresses = [int.from_bytes(row[9][at : at + 8], "little") for at in range(0, len(row[9]), 8)]
    assert (row[0], row[3], row[5], row[7], row[8]) == ("memory_holders", "/home/me/train.py", 9, "bytes", 0)
    assert addresses == [id(block) for block in names["history"][5:9]]
    assert row[10] < row[11], "the two looks"


def test_a_variable_of_a_running_function_is_named_with_it(program: Program) -> None:
    names = program.define("def fit(each, run):\n    losses = []\n    run(10, lambda step: losses.append(each()))\n")
    names["fit"](new, program.run)
    assert program.held() == {"losses": ("fit", "list", 4)}


@pytest.mark.parametrize(
    "live",
    [
        pytest.param(lambda step: 100 * MIB, id="steady"),
        pytest.param(lambda step: (100 + step % 2) * MIB, id="up and down"),
        pytest.param(lambda step: (100 + min(step, 3)) * MIB, id="at the start"),
        pytest.param(lambda step: 100 * MIB + step * 1000, id="a little"),
        pytest.param(lambda step: 0, id="not recorded"),
    ],
)
def test_nothing_is_asked_while_memory_does_not_grow(program: Program, live: Callable[[int], int]) -> None:
    names = program.define("history = []")
    program.run(200, lambda step: names["history"].append(new()), live)
    assert program.rows == [] and not program.looked()


def test_slow_growth_shows_beside_memory_that_comes_and_goes(program: Program) -> None:
    names = program.define("history = []")
    program.run(300, lambda step: names["history"].append(new()), lambda step: (100 + 40 * (step * 7 % 5) + step) * MIB)
    assert set(program.held()) == {"history"}


def test_memory_that_falls_again_is_held_by_nobody(program: Program) -> None:
    names = program.define("history = []")
    program.run(100, lambda step: names["history"].append(new()), lambda step: (1 + step % 7 if step < 9 else 1) * MIB)
    assert program.looked() and program.rows == []


def test_it_is_asked_twice_at_most_in_a_recording_and_anew_in_the_next(program: Program) -> None:
    names = program.define("history = []")
    program.run(1000, lambda step: names["history"].append(new()))
    assert [row[1] for row in program.rows] == ["history", "history"]
    program.growth.recording_began()
    program.run(10, lambda step: names["history"].append(new()))
    assert len(program.rows) == 3


def test_a_child_of_a_fork_is_not_asked(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    names = program.define("history = []")
    monkeypatch.setattr(program.growth.posix, "getpid", lambda: -1)
    program.run(100, lambda step: names["history"].append(new()))
    assert not program.looked()


def test_ticks_count_where_no_steps_end(program: Program) -> None:
    names = program.define("history = []")
    program._ours.live_bytes = lambda: len(names["history"]) * MIB
    for _ in range(10):
        names["history"].append(new())
        program.growth.tick()
    assert set(program.held()) == {"history"}
    program.growth.recording_began()
    for _ in range(10):
        names["history"].append(new())
        program.growth.step_ended()
        program.growth.tick()
    assert program.growth._watch.steps == 10, "a tick beside steps is none"


def test_memory_that_grew_before_the_first_step_does_not_count(program: Program) -> None:
    """While a program imports, memory grows, and the lists of its training are not yet there."""
    program._ours.live_bytes = iter(range(MIB, 99 * MIB, MIB)).__next__
    for _ in range(7):
        program.growth.tick()
    names = program.define("history = []")
    program.run(12, lambda step: names["history"].append(new()), lambda step: (100 + step) * MIB)
    assert set(program.held()) == {"history"}


HOSTILE = """
class Meta(type):
    def __getattribute__(cls, name): raise AssertionError(name)
    def __subclasscheck__(cls, other): raise AssertionError
class Trap(metaclass=Meta):
    def __init__(self): self.kept = []
    def __getattribute__(self, name): raise AssertionError(name)
    def __eq__(self, other): raise AssertionError
    def __hash__(self): return 1
    def __len__(self): raise AssertionError
    def __bool__(self): raise AssertionError
class MadeUp:
    @property
    def __dict__(self): raise AssertionError
    __class__ = property(lambda self: 1 / 0)
class Rows(list):
    def __len__(self): raise AssertionError
    def __iter__(self): raise AssertionError
    def __getitem__(self, at): raise AssertionError
class Cache(dict):
    def __len__(self): raise AssertionError
    def __iter__(self): raise AssertionError
    def values(self): raise AssertionError
    def items(self): raise AssertionError
class Key:
    def __repr__(self): raise AssertionError
    __str__ = __repr__
trap = object.__new__(Trap)
object.__setattr__(trap, "kept", [])
kept = object.__getattribute__(trap, "kept"); made_up = MadeUp(); rows = Rows(); cache = Cache()
odd = {Key(): []}; ring = []; ring.append(ring)
del kept
def step(number, new):
    object.__getattribute__(trap, "kept").append(new()); list.append(rows, new()); dict.__setitem__(cache, number, new())
    next(iter(odd.values())).append(new())
"""


def test_no_code_of_the_program_is_run(program: Program) -> None:
    names = program.define(HOSTILE)
    program.run(10, lambda step: names["step"](step, new))
    assert set(program.held()) == {"trap.kept", "rows", "cache", "odd[…]"}


def test_no_reference_is_kept(program: Program) -> None:
    names = program.define(FORMS)
    program.run(7, lambda step: names["step"](step, new))
    watched = (names["history"], names["trainer"], names["by_step"], names["history"][0])
    before = [sys.getrefcount(one) for one in watched]
    lengths = program.holders().lengths()
    assert [sys.getrefcount(one) for one in watched] == before
    assert all(type(key) is int and type(value) is int for key, value in lengths.items())


def test_a_walk_ends_in_time_with_the_nearest(program: Program) -> None:
    holders = program.holders()
    names = program.define("near = [b'x' * 5000] * 2\nfar = [[[[i, [b'y' * 5000] * 2]] for i in range(50)] for _ in range(200)]")
    holders.BUDGET_NS = 0
    assert len(holders.lengths()) < 40
    holders.BUDGET_NS = 10**10
    assert id(names["near"]) in holders.lengths()


def test_tensors_have_an_address_and_say_whether_they_keep_a_graph(program: Program) -> None:
    torch = pytest.importorskip("torch")
    contents = importlib.import_module("_aiflame_target.memory_contents").Contents()
    leaf = torch.ones(4, requires_grad=True)
    graph = leaf * 2
    assert list(contents.of(leaf)) == [("Tensor", leaf.data_ptr(), False)]
    assert list(contents.of({"loss": (3, graph)})) == [("Tensor", graph.data_ptr(), True)]
    assert list(contents.of(torch.ones(4, device="meta"))) == [("Tensor", 0, False)]
    assert list(contents.of(torch.ones(4).to_sparse())) == [("Tensor", 0, False)]
    copy = torch._lazy_clone(leaf.detach())
    assert list(contents.of(copy)) == [("Tensor", 0, False)] and torch._C._is_cow_tensor(copy), "not copied"

    own = torch.ones(4).as_subclass(type("Own", (torch.Tensor,), {"__torch_function__": None}))
    assert list(contents.of(own)) == [("Own", 0, False)]


def test_the_newest_entries_of_a_long_dictionary_count(program: Program) -> None:
    names = program.define("import collections\ncache = collections.OrderedDict((i, b'old') for i in range(3000))")
    program.run(10, lambda step: names["cache"].update({("key", step): new()}))
    (row,) = program.rows
    newest = list(collections.OrderedDict(names["cache"]).values())[-2:-6:-1]
    assert row[9] == b"".join(id(block).to_bytes(8, "little") for block in newest)


def test_modules_of_packages_and_of_python_are_not_the_programs_own(program: Program) -> None:
    own = dict(importlib.import_module("_aiflame_target.memory_holders").own_modules())
    assert {"train", __name__} <= set(own) and not {"os", "json", "pytest", "_aiflame"} & set(own)
