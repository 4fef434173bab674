"""A compiled kernel, looked at by itself, lists its ops and the files that were kept of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiled_kernels import ADD, GELU, NORM, call
from profiles import ran, sealed

from aiflame.analyze.kernel.annotate import annotate
from aiflame.analyze.kernel.annotate_json import to_json
from aiflame.profile.tables.store import Profile
from aiflame.render.terminal.annotate_header import header

FUSED = "triton_per_fused_add_native_layer_norm_2"


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return sealed(
        tmp_path / "p.aiflame",
        **ran({"name": FUSED, "end_ns": 10}, {"name": "gemm", "end_ns": 5}),
        kernel_origins=[call(FUSED, 3, ADD, NORM), call("triton_poi_fused_gelu_1", 4, GELU)],
        kept_files=[
            {"kernel": FUSED, "kind": "ttir", "file": "norm.ttir"},
            {"kernel": "", "module": "0/0 forward", "kind": "fx post grad", "file": "graph.txt"},
            {"kernel": "", "module": "1/0 forward", "kind": "fx post grad", "file": "another.txt"},
            {"kernel": "triton_poi_fused_gelu_1", "kind": "ttir", "file": "gelu.ttir"},
        ],
    )


def test_a_fused_kernel_lists_its_ops_with_layers_and_lines_and_its_files(profile: Profile) -> None:
    answer = annotate(profile, FUSED)
    assert answer.made_from == ("aten::add (layers.2, model.py:10)", "aten::native_layer_norm (layers.3.norm, model.py:10)")
    assert answer.kept == ("kept/graph.txt", "kept/norm.ttir")
    text = "\n".join(line.plain for line in header(answer, 100))
    assert "aten::native_layer_norm (layers.3.norm, model.py:10)" in " ".join(text.split())
    assert "kept/norm.ttir" in text
    assert json.loads(to_json(answer))["made_from"] == list(answer.made_from)


def test_another_kernel_says_nothing_of_it(profile: Profile) -> None:
    answer = annotate(profile, "gemm")
    assert (answer.made_from, answer.kept) == ((), ())
    assert "fused from" not in "\n".join(line.plain for line in header(answer, 100))
