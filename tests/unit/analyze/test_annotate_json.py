"""An annotated kernel as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from sampled_kernels import CODE, GEMM, HOT, TEXT, Sampled, profile

from aiflame.analyze.kernel.annotate import annotate
from aiflame.analyze.kernel.annotate_json import to_json


def test_json_has_every_line_and_instruction(tmp_path: Path) -> None:
    answer = json.loads(to_json(annotate(profile(tmp_path / "p", GEMM, HOT, sources={CODE: TEXT}), "gemm")))
    assert set(answer) == {
        *(
            "schema",
            "kernel",
            "others",
            "shapes",
            "sampling",
            "cubin",
            "versions",
            "count",
            "reasons",
            "files",
            "lines",
            "instructions",
            "notes",
        ),
        *("made_from", "kept_files"),
    }
    assert answer["kernel"]["short"] == "gemm<4>"
    assert answer["kernel"]["mean_ns"] == 1_000_000
    assert answer["shapes"][0]["grid"] == [8, 1, 1]
    assert answer["sampling"] == {"samples": 900, "dropped": 100, "period_cycles": [16384]}
    assert answer["cubin"] == "a1b2c3d4e5f60718"
    assert [other["short"] for other in answer["others"]] == ["Gemm<float>"]
    assert answer["instructions"][1] == {
        "offset": 16,
        "sass": "LDG.E R4, [R2.64]",
        "samples": 65,
        "not_issued": 50,
        "percent": 65.0,
        "reasons": {"long_scoreboard": {"samples": 60, "not_issued": 50}, "selected": {"samples": 5, "not_issued": 0}},
        "places": [{"function": "kernel", "file": CODE, "line": 4}],
    }
    assert answer["lines"][1] == {
        "file": CODE,
        "line": 4,
        "text": "    x = load(p)",
        "samples": 80,
        "not_issued": 50,
        "percent": 80.0,
        "inclusive_samples": 80,
        "inclusive_percent": 80.0,
        "reasons": {
            "long_scoreboard": {"samples": 60, "not_issued": 50},
            "barrier": {"samples": 15, "not_issued": 0},
            "selected": {"samples": 5, "not_issued": 0},
        },
        "blocks": [{"inlined_into": [], "offsets": [16, 48]}],
    }


def test_json_without_samples_has_the_same_keys(tmp_path: Path) -> None:
    full = json.loads(to_json(annotate(profile(tmp_path / "p", GEMM), "gemm")))
    bare = json.loads(to_json(annotate(profile(tmp_path / "q", Sampled("gemm")), "gemm")))
    assert set(bare) == set(full)
    assert set(bare["kernel"]) == set(full["kernel"])
    assert (bare["cubin"], bare["lines"], bare["instructions"]) == (None, [], [])
