"""dlsym(), which the collector stands in front of, answers every caller as it would alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from live import plain, recorded

from built import built


@pytest.fixture(scope="module")
def scenes() -> list[Path]:
    """The program, and its argument. It is linked with a first library, and that with a second."""
    return [built("programs/dlsym_scenes"), built("programs/libdlsym_second.so")]


@pytest.mark.parametrize("binding", [{}, {"LD_BIND_NOW": "1"}], ids=["bound when called", "bound at once"])
def test_every_caller_is_answered_as_it_would_be_alone(scenes: list[Path], tmp_path: Path, binding: dict[str, str]) -> None:
    alone = plain(scenes, tmp_path, env=binding)
    assert "next of the program: first\nnext of the first library: second\n" in alone.stdout
    assert "CUPTI's name in another library: no CUPTI at all\n" in alone.stdout
    assert alone == recorded(scenes, tmp_path / "profile", env=binding)


def test_another_library_in_front_of_dlsym_is_still_asked(scenes: list[Path], tmp_path: Path) -> None:
    other = built("programs/libdlsym_other.so")
    alone = plain(scenes, tmp_path, env={"LD_PRELOAD": str(other)})
    assert alone.stdout.endswith("asked: often\n")
    assert alone == recorded(scenes, tmp_path / "profile", env={"LD_PRELOAD": str(other)})
