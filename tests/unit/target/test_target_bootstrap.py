"""The import hooks that wait in the program for its modules: the program itself notices no difference."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SOURCE = Path(__file__).parents[3] / "src/aiflame/target/bootstrap.py"


@dataclass
class Program:
    """A program's folder on the import path, and a folder of ours with hooks that note their arguments."""

    folder: Path
    target: Path
    notes: list[str] = field(default_factory=list)
    bootstrap: dict[str, Any] = field(default_factory=dict)

    def module(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def hook(self, name: str, text: str) -> None:
        (self.target / f"{name}.py").write_text(text)

    def start(self) -> None:
        path = str(self.target / "bootstrap.py")
        self.bootstrap = {"__name__": "_aiflame_target.bootstrap", "__file__": path}
        exec(compile(SOURCE.read_text(), path, "exec"), self.bootstrap)

    @property
    def installed(self) -> list[str]:
        return [note for note in self.notes if note.startswith("installed")]


INSTALL = """
import _aiflame
def install(module):
    _aiflame.note(f"installed in {module.__name__} with {module.VALUE}")
def recording_began():
    _aiflame.note("began")
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    installed = Program(tmp_path / "app", tmp_path / "target")
    installed.folder.mkdir()
    installed.target.mkdir()
    ours = ModuleType("_aiflame")
    ours.note, ours.features = installed.notes.append, 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "_aiflame", ours)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(installed.folder))
    absent = ("torch", "triton", "jax")
    for name in [name for name in sys.modules if name.partition(".")[0] in absent]:
        monkeypatch.delitem(sys.modules, name)
    before = set(sys.modules)
    installed.hook("torch_hooks", INSTALL)
    installed.module("torch/__init__.py", "VALUE = 1\n")
    yield installed
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_ours_is_installed_right_after_the_import(program: Program) -> None:
    program.start()
    assert not program.notes
    import_module("torch")
    assert program.notes == ["installed in torch with 1"]


def import_module(name: str) -> Any:
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_the_module_has_the_loader_that_it_would_have(program: Program) -> None:
    plain = import_module("torch")
    kind, source = type(plain.__loader__), plain.__loader__.get_source("torch")
    del sys.modules["torch"]
    program.start()
    watched = import_module("torch")
    for loader in (watched.__loader__, watched.__spec__.loader):
        assert type(loader) is kind is SourceFileLoader
        assert loader.get_source("torch") == source == "VALUE = 1\n"
    assert program.installed


def test_a_program_that_only_asks_where_a_module_is_gets_its_loader_as_far_as_it_can_tell(program: Program) -> None:
    program.start()
    importlib.invalidate_caches()
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.loader is not None
    assert isinstance(spec.loader, SourceFileLoader)
    assert spec.loader.get_source("torch") == "VALUE = 1\n"
    assert not program.notes
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch"] = module
    spec.loader.exec_module(module)
    assert type(module.__loader__) is SourceFileLoader and module.__spec__ is spec
    assert len(program.installed) == 1


def test_a_lazy_loader_in_between_changes_nothing(program: Program) -> None:
    program.start()
    importlib.invalidate_caches()
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch"] = module
    spec.loader.exec_module(module)
    assert not program.notes
    assert module.VALUE == 1
    assert program.notes == ["installed in torch with 1"]


def test_a_module_that_is_not_there_is_not_there(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "-packages" not in path])
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    program.start()
    with pytest.raises(ModuleNotFoundError, match="No module named 'triton'"):
        import_module("triton")
    assert importlib.util.find_spec("triton") is None


def test_an_import_that_fails_shows_the_traceback_that_it_would_show(program: Program) -> None:
    program.module("torch/__init__.py", "import torch.broken\n")
    program.module("torch/broken.py", "raise OSError('no libcudart')\n")

    def failure() -> list[tuple[str, int | None, str]]:
        sys.modules.pop("torch", None)
        importlib.invalidate_caches()
        try:
            exec(compile("import torch", "program.py", "exec"), {})
        except OSError as error:
            return [(frame.filename, frame.lineno, frame.name) for frame in traceback.extract_tb(error.__traceback__)][1:]
        raise AssertionError

    plain = failure()
    assert len(plain) == 3
    program.start()
    assert failure() == plain
    assert "torch" not in sys.modules and not program.notes


def test_a_reloaded_module_is_installed_in_again(program: Program) -> None:
    program.start()
    torch = import_module("torch")
    program.module("torch/__init__.py", "VALUE = 22\n")
    assert importlib.reload(torch) is torch
    assert program.notes == ["installed in torch with 1", "installed in torch with 22"]


def test_a_module_that_the_program_has_already_is_installed_in_at_once(program: Program) -> None:
    import_module("torch")
    program.start()
    assert program.notes == ["installed in torch with 1"]


def test_a_module_that_is_just_being_imported_waits_for_the_next_look(program: Program) -> None:
    program.module("torch/__init__.py", "import start_now\nVALUE = 3\n")
    program.module("start_now.py", "import _aiflame\n_aiflame.start()\n")
    sys.modules["_aiflame"].start = program.start  # type: ignore[attr-defined]
    import_module("torch")
    assert not program.notes
    program.bootstrap["look_around"]()
    program.bootstrap["look_around"]()
    assert program.notes == ["installed in torch with 3"]


def test_a_program_that_throws_our_finder_out_is_looked_at_now_and_then(program: Program) -> None:
    program.start()
    sys.meta_path = [finder for finder in sys.meta_path if type(finder).__module__ != "_aiflame_target.bootstrap"]
    import_module("torch")
    assert not program.notes
    program.bootstrap["look_around"]()
    assert program.notes == ["installed in torch with 1"]
    assert type(sys.meta_path[0]).__module__ == "_aiflame_target.bootstrap"


def test_a_finder_that_asks_all_others_does_not_go_round_in_circles(program: Program) -> None:
    asked = []

    class Asks:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
            if name in asked:
                return None
            asked.append(name)
            return importlib.util.find_spec(name)

    program.start()
    sys.meta_path.insert(1, Asks())  # type: ignore[arg-type]
    assert import_module("torch").VALUE == 1
    assert asked == ["torch"]
    assert len(program.installed) == 1


def test_parts_of_a_package_are_awaited_too(program: Program) -> None:
    program.hook("parts", INSTALL)
    program.module("torch/part/inner.py", "VALUE = 5\n")
    program.start()
    program.bootstrap["HOOKS"]["torch.part.inner"] = "parts"
    import_module("torch.part.inner")
    assert program.notes == ["installed in torch with 1", "installed in torch.part.inner with 5"]


def test_our_modules_import_one_another(program: Program) -> None:
    program.hook("torch_hooks", "from . import words\nimport _aiflame_target.words\ndef install(torch):\n    words.say()\n")
    program.hook("words", "import _aiflame\ndef say():\n    _aiflame.note('said')\n")
    program.start()
    import_module("torch")
    assert program.notes == ["said"]
    assert sorted(path.name for path in program.target.iterdir()) == ["torch_hooks.py", "words.py"], "byte code was written"


def test_a_hook_that_is_missing_is_skipped(program: Program) -> None:
    (program.target / "torch_hooks.py").unlink()
    program.start()
    assert import_module("torch").VALUE == 1
    assert not program.notes


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("def install(torch):\n    raise ValueError('one\\ntwo')\n", "torch_hooks.py:2: ValueError: one two"),
        ("import nowhere_to_be_found\n", "torch_hooks.py:1: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("x = (\n", "SyntaxError: "),
    ],
)
def test_a_failure_in_our_hook_is_a_note_and_the_import_goes_on(program: Program, text: str, note: str) -> None:
    program.hook("torch_hooks", text)
    program.start()
    assert import_module("torch").VALUE == 1
    (printed,) = program.notes
    assert note in printed and "\n" not in printed


def test_each_further_recording_gets_the_reports(program: Program) -> None:
    program.start()
    program.bootstrap["recording_began"]()
    assert not program.notes
    import_module("torch")
    program.bootstrap["recording_began"]()
    assert program.notes == ["installed in torch with 1", "began"]


def test_an_interrupted_import_is_the_program_s(program: Program) -> None:
    program.hook("torch_hooks", "def install(torch):\n    raise KeyboardInterrupt\n")
    program.start()
    with pytest.raises(KeyboardInterrupt):
        import_module("torch")


def test_only_frozen_modules_are_imported() -> None:
    """The file runs before the interpreter can read modules from disk."""
    tree = ast.parse(SOURCE.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    froms = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert froms == ["collections.abc", "importlib.machinery", "types", "typing"], "for type checkers alone"
    assert names == {"sys", "posix", "_aiflame", "_frozen_importlib", "_frozen_importlib_external"}
