"""Provenance of compiled kernels: read from the recording, looked up for stacks and kernels, and their time divided."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from compiled_kernels import ADD, GELU, GENERATED, NORM, call, op
from hypothesis import given
from hypothesis import strategies as st
from profiles import native, python, sealed, stack

from aiflame.attribute.meaning.fused_kernels import KernelOrigins, kernel_origins
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile
from aiflame.resolve.fused_ops import kernel_labels, label, provenance, with_kernels

LIBRARY = "/tmp/torchinductor_me/cd/ccdc.main.so"


FUSED = call("cpp_fused_add_native_layer_norm_2", 40, ADD, NORM, library=LIBRARY)
ALONE = call("cpp_fused_gelu_1", 44, GELU)


@pytest.fixture
def compiled(tmp_path: Path) -> Profile:
    """`step` calls the generated `call`, which at line 40 calls a fused kernel, at 44 one of a single op, and at 41 allocates."""
    step, fused, alone, other = python(1, 0), python(2, 80), python(2, 88), python(2, 82)
    inside = native(1, 0x1000, exact=True)
    stacks = stack(step, fused, inside)  # 1, 2, 3
    stacks += [{"parent": 1, "frame": alone}, {"parent": 4, "frame": native(2, 0x500)}]  # 4, 5
    stacks += [{"parent": 1, "frame": other}]  # 6
    stacks += [{"parent": 0, "frame": native(2, 0x10)}, {"parent": 7, "frame": inside}]  # 7, 8: a thread of OpenMP's
    file = {"kind": int(Kind.PYTHON), "process": 0, "depth": 0, "name": "call", "full_name": "", "module": "", "offset": 0}
    symbols = [
        {**file, "frame": step, "file": "train.py", "line": 40},
        {**file, "frame": fused, "file": GENERATED, "line": 40},
        {**file, "frame": alone, "file": GENERATED, "line": 44},
        {**file, "frame": other, "file": GENERATED, "line": 41},
    ]
    return sealed(
        tmp_path / "p.aiflame",
        stacks=stacks,
        symbols=symbols,
        modules=[{"path": LIBRARY}, {"path": "/usr/lib/libtorch_cpu.so"}],
        kernel_origins=[FUSED, ALONE],
    )


def sets_of(origins: KernelOrigins, *stacks: int) -> list[str]:
    sets = origins.of_stacks(np.zeros(len(stacks), dtype=np.int64), np.array(stacks))
    return [origins.labels[number] for number in sets]


def test_the_generated_line_that_runs_names_the_ops(compiled: Profile) -> None:
    fused = "fused: aten::add (layers.2), aten::native_layer_norm (layers.3.norm)"
    assert sets_of(kernel_origins(compiled), 2, 3, 4, 5) == [fused, fused, "aten::gelu (layers.3)", "aten::gelu (layers.3)"]


def test_other_lines_and_other_files_are_not_compiled_code(compiled: Profile) -> None:
    assert sets_of(kernel_origins(compiled), 1, 6, 7, 999) == ["", "", "", ""]


def test_a_thread_without_python_is_named_by_the_kernels_library(compiled: Profile) -> None:
    assert sets_of(kernel_origins(compiled), 8) == ["fused: aten::add (layers.2), aten::native_layer_norm (layers.3.norm)"]


def test_a_kernel_whose_stack_says_nothing_is_classified_by_its_name(compiled: Profile) -> None:
    origins, here = kernel_origins(compiled), np.zeros(2, dtype=np.int64)
    sets = origins.of_kernels(here, np.array([1, 2]), pl.Series(["cpp_fused_gelu_1", "cpp_fused_gelu_1"]))
    assert [origins.labels[number] for number in sets] == [
        "aten::gelu (layers.3)",
        "fused: aten::add (layers.2), aten::native_layer_norm (layers.3.norm)",
    ]


def test_a_profile_without_compiled_code_has_no_sets(tmp_path: Path) -> None:
    origins = kernel_origins(sealed(tmp_path / "p.aiflame", stacks=stack(native(1, 1))))
    assert sets_of(origins, 1) == [""]
    divided = origins.divide(np.zeros(2, dtype=np.int64), np.array([5, 7]))
    assert (divided.item.tolist(), divided.part.tolist(), divided.value.tolist()) == ([0, 1], [-1, -1], [5, 7])


def test_one_name_in_two_graphs_is_decided_by_the_line_else_it_may_be_either(tmp_path: Path) -> None:
    origins = provenance(sealed(tmp_path / "p.aiflame", kernel_origins=[call("k", 40, ADD), call("k", 44, NORM)]).table("kernel_origins"))
    assert origins.calls["set"].to_list() == [1, 2]
    assert origins.labels[origins.joint([1, 2])] == "fused: aten::add (layers.2), aten::native_layer_norm (layers.3.norm)"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"ops": 3}', '{"ops": [3]}', '{"ops": []}', '{"line": 1}', '{"ops": {"op": "x"}}', "[" * 5000],
    ids=str,
)
def test_lines_that_do_not_parse_are_skipped(tmp_path: Path, text: str) -> None:
    rows = [{**FUSED, "origins": text}, ALONE]
    origins = provenance(sealed(tmp_path / "p.aiflame", kernel_origins=rows).table("kernel_origins"))
    assert origins.calls["kernel"].to_list() == ["cpp_fused_gelu_1"]


def test_values_of_wrong_types_and_sizes_do_no_harm(tmp_path: Path) -> None:
    odd = {**op("aten::a\x1b[2J"), "layer": 7, "bytes": -5, "line": 1 << 40, "code": None, "backward": "yes"}
    huge = op("aten::b", share=1 << 80)
    parts = provenance(sealed(tmp_path / "p.aiflame", kernel_origins=[call("k", -3, odd, huge)]).table("kernel_origins")).parts
    assert parts["op"].to_list() == ["aten::a?[2J", "aten::b"]
    assert parts["share"].to_list() == [1, 1 << 40]
    assert parts["backward"].to_list() == [False, False]


def test_a_label_says_fused_where_there_are_several() -> None:
    assert label([("aten::add", ""), ("aten::add", "")]) == "aten::add"
    assert label([("aten::add", "a"), ("aten::add", "b")]) == "fused: aten::add (a), aten::add (b)"


def test_time_is_divided_by_bytes(compiled: Profile) -> None:
    origins = kernel_origins(compiled)
    sets = origins.of_stacks(np.zeros(3, dtype=np.int64), np.array([2, 4, 1]))
    divided = origins.divide(sets, np.array([4000, 500, 70]))
    ops = [origins.parts["op"][row] if row >= 0 else "" for row in divided.part.tolist()]
    assert list(zip(divided.item.tolist(), ops, divided.value.tolist(), strict=True)) == [
        (0, "aten::add", 3000),
        (0, "aten::native_layer_norm", 1000),
        (1, "aten::gelu", 500),
        (2, "", 70),
    ]


@given(
    st.lists(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=6), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1 << 45)), max_size=30),
)
def test_nothing_of_a_value_is_lost(shares: list[list[int]], values: list[tuple[int, int]]) -> None:
    rows = [{"set": number, "share": share} for number, each in enumerate(shares, 1) for share in each]
    none = np.zeros(0, dtype=np.int64)
    origins = KernelOrigins(pl.DataFrame(rows, schema={"set": pl.UInt32, "share": pl.Int64}), [], none, none, pl.DataFrame())
    sets = np.array([number % (len(shares) + 1) for number, _ in values], dtype=np.int64)
    value = np.array([amount for _, amount in values], dtype=np.int64)
    divided = origins.divide(sets, value)
    sums = np.zeros(len(value), dtype=np.int64)
    np.add.at(sums, divided.item, divided.value)
    assert sums.tolist() == value.tolist()
    assert (divided.value >= 0).all()
    assert (divided.part[np.isin(divided.item, np.flatnonzero(sets == 0))] == -1).all()


def test_small_values_are_shared_out_fairly(compiled: Profile) -> None:
    """A hundred samples of 1: three quarters of them go to the op that moves three quarters of the bytes."""
    origins = kernel_origins(compiled)
    divided = origins.divide(np.full(100, 1), np.ones(100, dtype=np.int64))
    of_add = divided.part == origins.parts["op"].to_list().index("aten::add")
    assert abs(int(divided.value[of_add].sum()) - 75) <= 1


def test_a_kernels_library_lends_its_function_the_kernels_name(tmp_path: Path) -> None:
    origins = provenance(sealed(tmp_path / "p.aiflame", kernel_origins=[FUSED]).table("kernel_origins"))
    modules = pl.DataFrame(
        {"process": [0, 0], "id": [1, 2], "path": [LIBRARY, "/usr/lib/other.so"]}, schema_overrides={"process": pl.UInt32}
    )
    names = ["kernel", "kernel._omp_fn", "kernels", "at::vec::Vectorized", "kernel"]
    symbols = pl.DataFrame(
        {"process": [0] * 5, "id": [1, 1, 1, 1, 2], "name": names, "full_name": [""] * 5}, schema_overrides={"process": pl.UInt32}
    )
    named = with_kernels(symbols, modules, origins)
    name = "cpp_fused_add_native_layer_norm_2"
    assert named["name"].to_list() == [name, f"{name}._omp_fn", "kernels", "at::vec::Vectorized", "kernel"]
    assert named["full_name"][0] == f"{name}: fused: aten::add (layers.2), aten::native_layer_norm (layers.3.norm)"
    assert named["full_name"].to_list()[2:] == ["", "", ""]


def test_the_label_of_a_kernel_has_the_ops_of_all_its_calls(tmp_path: Path) -> None:
    rows = [call("triton_poi_fused_gelu_1", line, op("aten::gelu", f"layers.{line}")) for line in (3, 4)]
    origins = provenance(sealed(tmp_path / "p.aiflame", kernel_origins=rows).table("kernel_origins"))
    assert kernel_labels(origins) == {"triton_poi_fused_gelu_1": "fused: aten::gelu (layers.3), aten::gelu (layers.4)"}


def test_a_kernel_of_xlas_is_named_as_in_the_binary(tmp_path: Path) -> None:
    row = {**call("loop_add-fusion.3", 0, ADD), "compiler": "xla"}
    origins = provenance(sealed(tmp_path / "p.aiflame", kernel_origins=[row]).table("kernel_origins"))
    assert origins.calls["kernel"].to_list() == ["loop_add_fusion_3"]
