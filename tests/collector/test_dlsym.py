"""dlsym(), which the collector stands in front of, answers every caller as it would alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from live import build, plain, recorded


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The program, and its argument. It is linked with a first library, and that with a second."""
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second", "program")]
    second = build("dlsym_library.cpp", folders[1], "-shared", "-fPIC", '-DNAME="second"')
    first = build(
        "dlsym_library.cpp", folders[0], "-shared", "-fPIC", "-DFIRST", '-DNAME="first"', "-Wl,--no-as-needed", str(second), "-ldl"
    )
    program = build("dlsym_scenes.cpp", folders[2], "-rdynamic", "-Wl,--no-as-needed", str(first), str(second), "-ldl")
    return [program, second]


@pytest.mark.parametrize("binding", [{}, {"LD_BIND_NOW": "1"}], ids=["bound when called", "bound at once"])
def test_every_caller_is_answered_as_it_would_be_alone(scenes: list[Path], tmp_path: Path, binding: dict[str, str]) -> None:
    alone = plain(scenes, tmp_path, env=binding)
    assert "next of the program: first\nnext of the first library: second\n" in alone.stdout
    assert "CUPTI's name in another library: no CUPTI at all\n" in alone.stdout
    assert alone == recorded(scenes, tmp_path / "profile", env=binding)


def test_another_library_in_front_of_dlsym_is_still_asked(scenes: list[Path], tmp_path: Path) -> None:
    other = build("dlsym_other.cpp", tmp_path, "-shared", "-fPIC", "-ldl")
    alone = plain(scenes, tmp_path, env={"LD_PRELOAD": str(other)})
    assert alone.stdout.endswith("asked: often\n")
    assert alone == recorded(scenes, tmp_path / "profile", env={"LD_PRELOAD": str(other)})
