"""`aiflame.values.dataclass` behaves as the standard library's, and costs less to import."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys

import pytest

from aiflame import values
from aiflame.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    tags: dict[str, int] = field(default_factory=dict)

    @property
    def sum(self) -> int:
        return self.x + self.y


@dataclass(slots=True)
class Changing:
    name: str = ""
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = self.name.upper()


def test_values_are_set_compared_and_shown() -> None:
    point = Point(1, tags={"a": 1})
    assert (point.x, point.y, point.tags, point.sum) == (1, 2, {"a": 1}, 3)
    assert point == Point(1, 2, {"a": 1}) != Point(1, 3)
    assert repr(point) == "Point(x=1, y=2, tags={'a': 1})"
    assert Point(1).tags is not Point(1).tags
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]


def test_a_frozen_one_cannot_be_changed_and_one_with_slots_has_nothing_else() -> None:
    with pytest.raises(AttributeError):
        Point(1).x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Changing().other = 1  # type: ignore[attr-defined]
    changing = Changing("a")
    changing.notes.append("b")
    assert (changing.name, changing.notes) == ("A", ["b"])


def test_the_standard_library_knows_it_as_its_own() -> None:
    point = Point(1)
    assert [one.name for one in dataclasses.fields(Point)] == ["x", "y", "tags"]
    assert dataclasses.replace(point, y=5) == Point(1, 5)
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "tags": {}}
    assert dataclasses.is_dataclass(Point) and dataclasses.is_dataclass(Changing)
    assert copy.deepcopy(point) == point == pickle.loads(pickle.dumps(point))


def test_its_own_functions_are_quick_and_do_the_same() -> None:
    point = Point(1, tags={"a": 1})
    assert values.replace(point, y=5) == dataclasses.replace(point, y=5)
    assert values.asdict(point) == dataclasses.asdict(point)
    assert values.asdict(Changing(notes=["a"])) == {"name": "", "notes": ["a"]}


def test_it_imports_nothing() -> None:
    code = "import importlib.util as u, sys; s = u.spec_from_file_location('values', sys.argv[1]); m = u.module_from_spec(s)"
    code += "; before = set(sys.modules); s.loader.exec_module(m); print(set(sys.modules) - before - {'__future__'})"
    process = subprocess.run([sys.executable, "-I", "-S", "-c", code, values.__file__], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "set()"


@dataclass(frozen=True, slots=True)
class Single:
    names: tuple[str, ...]


def test_equal_ones_are_one_key_with_any_number_of_fields() -> None:
    assert Single(("a",)) == Single(("a",)) != Single(("b",))
    assert {Single(("a",)): 1}[Single(("a",))] == 1
    assert Single(("a",)) != ("a",)  # type: ignore[comparison-overlap]
    places = {(1, 2): Place(1, 2), (2, 1): Place(2, 1)}
    assert len({*places.values(), Place(1, 2)}) == 2


@dataclass(frozen=True, slots=True)
class Place:
    file: int
    line: int


def test_readers_make_their_classes_with_it() -> None:
    """The standard library's decorator takes more than a millisecond for each class, while somebody waits for a command."""
    show = (
        "import dataclasses, sys\n"
        "made, plain = [], dataclasses._process_class\n"
        "def seen(cls, *rest): made.append(f'{cls.__module__}.{cls.__name__}'); return plain(cls, *rest)\n"
        "dataclasses._process_class = seen\n"
        "import aiflame.cli.top\n"
        "print(*sorted(name for name in made if name.startswith('aiflame.')), sep='\\n')"
    )
    classes = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True).stdout.split()
    inherit = {"ProfileAnalysis", "DeviceJoin", "Launches"}  # the first inherits fields of the second; the third is beside it
    assert {name.rpartition(".")[2] for name in classes} <= inherit
