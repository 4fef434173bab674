"""Where in the program's own source stacks are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stories import Story

from aiflame.analyze.places import place_of, places

TRAIN = ("train", "/app/train.py", 12)


def place(story: Story, path: Path, stack: int, thread: int = 1) -> tuple[str, int, str, bool]:
    profile = story.profile(path)
    places_of_stacks = places(profile)
    at = place_of(profile, *(np.array([value]) for value in (0, thread, stack)))
    row: tuple[str, int, str, bool] = places_of_stacks.rows.row(int(at[0]))
    return row


@pytest.mark.parametrize(
    "library",
    [
        "/venv/lib/python3.12/site-packages/transformers/trainer.py",
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "/usr/lib/python3.12/threading.py",
        "<frozen importlib._bootstrap>",
        "/src/pytorch/torch/nn/modules/module.py",
        "/src/pytorch/torch/_tensor.py",
        "/tmp/torchinductor_me/ab/x.py",
        "/cache/ab/c" + "a2" * 25 + "b.py",
        "/src/aiflame/target/torch_steps.py",
        "/src/aiflame/intra/runtime.py",
    ],
)
def test_lines_of_libraries_stand_at_the_line_of_the_program_that_called_them(tmp_path: Path, library: str) -> None:
    story = Story()
    stack = story.stack(("main", "/app/main.py", 3), TRAIN, ("call", library, 7), "at::native::mm")
    assert place(story, tmp_path, stack) == ("/app/train.py", 12, "train", True)


@pytest.mark.parametrize(
    ("script", "function", "own"), [("pytest", "<module>", False), ("pytest", "main", True), ("run.py", "<module>", True)]
)
def test_the_module_of_a_tools_script_only_calls_it(tmp_path: Path, script: str, function: str, own: bool) -> None:
    story = Story()
    tool = ("main", "/venv/lib/python3.12/site-packages/tool/main.py", 7)
    file = f"/venv/bin/{script}"
    expected = (file, 8, function, True) if own else (tool[1], 7, "main", False)
    assert place(story, tmp_path, story.stack((function, file, 8), tool)) == expected


def test_a_file_in_a_folder_of_that_name_is_no_library(tmp_path: Path) -> None:
    story = Story()
    stack = story.stack(TRAIN, ("attend", "/home/me/torch/model.py", 7))
    assert place(story, tmp_path, stack) == ("/home/me/torch/model.py", 7, "attend", True)


def test_a_stack_of_libraries_alone_stands_at_their_innermost_line(tmp_path: Path) -> None:
    story = Story()
    stack = story.stack(("main", "/x/site-packages/run.py", 3), ("go", "/x/site-packages/go.py", 4), "native")
    assert place(story, tmp_path, stack) == ("/x/site-packages/go.py", 4, "go", False)


def test_a_thread_without_python_stands_where_it_was_started(tmp_path: Path) -> None:
    story = Story()
    started = story.stack(TRAIN, "torch::autograd::Engine::start")
    thread = story.thread("autograd")
    story.tables["threads"][-1]["creator"] = started
    assert place(story, tmp_path, story.stack("evaluate"), thread) == ("/app/train.py", 12, "train", True)


def test_native_code_alone_is_nowhere(tmp_path: Path) -> None:
    story = Story()
    assert place(story, tmp_path, story.stack("main")) == ("", 0, "", False)
    assert place(Story(), tmp_path / "2", 99) == ("", 0, "", False)


@pytest.mark.parametrize(("function", "nowhere"), [("<module>", True), ("work", False)])
def test_a_thread_that_an_import_started_has_no_place_unless_a_line_of_the_program_did(
    tmp_path: Path, function: str, nowhere: bool
) -> None:
    """BLAS starts its threads when it is loaded; other lines ask for their work later."""
    story = Story()
    thread = story.thread("worker")
    importlib = ("_call_with_frames_removed", "<frozen importlib._bootstrap>", 241)
    inside = [("<module>", "/venv/lib/python3.12/site-packages/numpy/__init__.py", 1)] if nowhere else [("work", "/app/work.py", 4)]
    started = story.stack(("<module>", "/app/main.py", 3), importlib, *inside, "blas_thread_init")
    story.tables["threads"][-1]["creator"] = started
    expected = ("", 0, "", False) if nowhere else ("/app/work.py", 4, function, True)
    assert place(story, tmp_path, story.stack("blas_thread_server"), thread) == expected
