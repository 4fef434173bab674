"""Windows that name their launch (AMD): all their samples belong to it, whatever else ran at that time."""

from __future__ import annotations

from pathlib import Path

from device_work import GEMM, UNDER, kernel, lines, profile, sample, window
from profiles import Row, ran

from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.enums import GpuApi
from aiflame.profile.tables.store import Profile

HIP = int(GpuApi.HIP)
STALLS = "gpu-stalls"
MAIN, RUN, WORK = f"{UNDER};-;gemm_[G]", f"{UNDER};py::run;-;gemm_[G]", f"{UNDER};py::run;work;-;gemm_[G]"


def stored(
    path: Path, *windows: Row, kernels: list[Row] | None = None, functions: list[Row] | None = None, **samples: list[Row]
) -> Profile:
    """Launch n comes from stack n; the second kernel runs ten times as long as the first, at the same time."""
    launches = [{"thread": 1, "stack": number, "api": HIP, "correlation": number} for number in (1, 2, 3)]
    work = kernels if kernels is not None else [kernel(1, 0, 10, api=HIP), kernel(2, 0, 100, api=HIP)]
    return profile(path, launches=launches, gpu_windows=list(windows), gpu_functions=functions or GEMM, **ran(*work), **samples)


def test_samples_are_those_of_the_launch_and_not_divided_by_time(tmp_path: Path) -> None:
    recorded = stored(tmp_path, window(0, 50, launched_by=1), window(0, 50, launched_by=2), gpu_samples=[sample(60, 1), sample(40, 2)])
    assert lines(tree(recorded, STALLS, detail="function"), STALLS) == {MAIN: 60, RUN: 40}


def test_windows_of_no_launch_are_divided_by_time_beside_them(tmp_path: Path) -> None:
    recorded = stored(tmp_path, window(0, 50, launched_by=1), window(0, 20), gpu_samples=[sample(60, 1), sample(30, 2)])
    assert lines(tree(recorded, STALLS, detail="function"), STALLS) == {MAIN: 60 + 10, RUN: 20}


def test_a_function_whose_kernel_was_never_sampled_belongs_to_the_launch(tmp_path: Path) -> None:
    functions = [{"cubin": 9, "name": "helper"}]
    recorded = stored(tmp_path, window(0, 50, launched_by=2), functions=functions, gpu_samples=[sample(7)])
    assert lines(tree(recorded, STALLS, detail="function"), STALLS) == {f"{RUN};helper_[G]": 7}


def test_kernels_of_one_launch_share_its_samples_by_name_then_by_time(tmp_path: Path) -> None:
    """As those of a graph."""
    kernels = [kernel(3, 0, 29, api=HIP), kernel(3, 30, 39, api=HIP), kernel(3, 40, 90, "other", api=HIP)]
    recorded = stored(tmp_path, window(0, 90, launched_by=3), kernels=kernels, gpu_samples=[sample(40)])
    assert lines(tree(recorded, STALLS, detail="function"), STALLS) == {WORK: 40}


def test_a_launch_whose_kernel_was_lost_falls_back_on_time(tmp_path: Path) -> None:
    recorded = stored(tmp_path, window(0, 50, launched_by=3), gpu_samples=[sample(12)])
    assert sum(lines(tree(recorded, STALLS, detail="function"), STALLS).values()) == 12


def test_a_number_of_another_runtime_is_no_launch(tmp_path: Path) -> None:
    """CUDA's numbers count by themselves."""
    launches = [{"thread": 1, "stack": 1, "api": 2, "correlation": 1}]
    work = ran(kernel(1, 0, 10), kernel(2, 0, 10))
    recorded = profile(
        tmp_path, launches=launches, gpu_windows=[window(0, 10, launched_by=1)], gpu_functions=GEMM, gpu_samples=[sample(10)], **work
    )
    assert sum(lines(tree(recorded, STALLS, detail="function"), STALLS).values()) == 10
