"""Limits of Triton's marks: more than 256 scopes in a kernel, and versions that are not known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")

import intra_add  # noqa: E402
import torch  # noqa: E402
from intra_fakes import FakeTriton  # noqa: E402

from aiflame.intra import compile_hook, lowering  # noqa: E402
from aiflame.intra.errors import Refused  # noqa: E402
from aiflame.intra.passes import MOST_SCOPES, Kernel  # noqa: E402


@pytest.fixture(autouse=True)
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A real one; its device is none."""
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path))
    intra_add.sums.device_caches.clear()
    triton.runtime.driver.set_active(FakeTriton())
    yield
    triton.runtime.driver._active = None


def three_hundred_in_a_loop_and_one_around_it(kernel: Kernel) -> None:
    (load,) = kernel.ops("tt.load", loop=True)
    for number in range(300):
        kernel.wrap(load, f"inner {number}")
    (loop,) = kernel.loops
    kernel.wrap(loop, "outer")


def test_of_more_scopes_than_a_record_can_number_the_outermost_are_kept() -> None:
    plain = intra_add.sums.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
    twin = compile_hook.twin(plain, compile_hook.Recipe((("many", three_hundred_in_a_loop_and_one_around_it),)))
    said = compile_hook.description(twin)
    names = [scope["name"] for scope in said["scopes"]]
    assert len(names) == MOST_SCOPES and "outer" in names
    assert said["left_out"] == 301 - MOST_SCOPES
    assert {scope["id"] for scope in said["scopes"]} == set(range(MOST_SCOPES))


@pytest.mark.parametrize("release", ["3.6.0", "3.7.1", "3.8.0+git1", "3.9.0"])
def test_versions_that_are_known_are_taken(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(triton, "__version__", release)
    assert lowering.version() == (3, int(release[2]))


@pytest.mark.parametrize("other", ["3.5.1", "3.10.0", "2.1.0", "4.0.0", "main"])
def test_any_other_version_is_refused_and_kernels_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    plain = intra_add.sums.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
    monkeypatch.setattr(triton, "__version__", other)
    with pytest.raises(Refused, match=f"Triton {other} is not supported: use 3.6 to 3.9"):
        compile_hook.twin(plain, compile_hook.Recipe(()))
