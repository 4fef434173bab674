"""Which kernel a name asks for, and which of its cubins and launch shapes come first."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from profiles import sealed
from sampled_kernels import COLD, CUBIN, GEMM, HOT, UNSAMPLED, Sampled, profile

from aiflame.analyze.kernel.annotate import Count, annotate
from aiflame.errors import AiflameError


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("_Z4coldv", "_Z4coldv"),
        ("gemm<double>", "_Z4coldv"),
        ("GEMM", "_Z3hotv"),
        ("element", "_Z4elemv"),
        ("gemm<d.*>", "_Z4coldv"),
        ("^ELEM", "_Z4elemv"),
    ],
)
def test_a_kernel_is_found_by_name_part_or_expression(tmp_path: Path, wanted: str, name: str) -> None:
    assert annotate(profile(tmp_path / "p", COLD, HOT, UNSAMPLED), wanted).kernel.name == name


def test_an_exact_name_wins_over_hotter_kernels_that_contain_it(tmp_path: Path) -> None:
    exact = Sampled("gemm", [(0, "EXIT", (), {"wait": 1})])
    answer = annotate(profile(tmp_path / "p", HOT, exact), "gemm")
    assert (answer.kernel.name, answer.others) == ("gemm", ())


def test_of_several_the_one_with_the_most_samples_is_shown_and_the_others_named(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", COLD, HOT, UNSAMPLED), "e")
    assert answer.kernel.short == "Gemm<float>"
    assert [(other.short, other.samples) for other in answer.others] == [("gemm<double>", 2), ("elementwise", 0)]


def test_without_samples_gpu_time_decides(tmp_path: Path) -> None:
    short_runs, long_runs = Sampled("ka", launches=5, each_ns=10), Sampled("kb", launches=1, each_ns=51)
    answer = annotate(profile(tmp_path / "p", short_runs, long_runs), "k")
    assert (answer.kernel.name, answer.kernel.launches, answer.kernel.gpu_time_ns) == ("kb", 1, 51)


def test_a_name_without_a_match_is_an_error_that_names_the_hottest(tmp_path: Path) -> None:
    stored = profile(tmp_path / "p", COLD, HOT, UNSAMPLED)
    for wanted in ("conv", "conv(", "x" * 10_000):
        with pytest.raises(AiflameError, match=re.escape("the hottest are Gemm<float>, gemm<double>, elementwise")) as error:
            annotate(stored, wanted)
        assert len(str(error.value)) < 200


def test_a_profile_without_kernels_says_so(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="no GPU kernel ran in this profile"):
        annotate(sealed(tmp_path / "p"), "gemm")


def test_a_device_function_can_be_asked_for_too(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", replace(GEMM, launches=0)), "gemm")
    assert (answer.kernel.launches, answer.shapes, answer.count.samples) == (0, (), 100)


def test_the_hottest_of_several_cubins_is_shown_and_another_can_be_chosen(tmp_path: Path) -> None:
    other = replace(GEMM, cubin=5, code=[(0x10, "EXIT", (), {"wait": 3})], launches=0)
    stored = profile(tmp_path / "p", other, GEMM)
    answer = annotate(stored, "gemm")
    assert (answer.cubin, answer.versions, answer.count.samples, answer.kernel.samples) == (CUBIN, {CUBIN: 100, 5: 3}, 100, 103)
    assert annotate(stored, "gemm", 5).count == Count(3, 0)
    with pytest.raises(AiflameError, match="use a1b2c3d4e5f60718, 0000000000000005"):
        annotate(stored, "gemm", 6)


def test_the_most_frequent_shape_comes_first(tmp_path: Path) -> None:
    rare, often = replace(GEMM, launches=2, shape={"grid_x": 9}, each_ns=10**9), replace(GEMM, launches=7, shape={"grid_x": 4}, code=())
    answer = annotate(profile(tmp_path / "p", rare, often), "gemm")
    assert [(shape.grid, shape.launches) for shape in answer.shapes] == [((4, 1, 1), 7), ((9, 1, 1), 2)]
    assert answer.kernel.launches == 9
