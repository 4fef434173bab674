"""A kernel, taken apart: which one is meant, and what its lines and instructions waited for."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from profiles import sealed
from sampled_kernels import CODE, CUBIN, LIBRARY, MODEL, VENDOR, Sampled, line, profile

from aiflame.analyze.kernel.annotate import Annotation, CodeLine, Count, annotate
from aiflame.analyze.kernel.annotate_json import to_json
from aiflame.analyze.kernel.source_text import Origin, SourceFolder, SourceTexts
from aiflame.errors import AiflameError
from aiflame.profile.folder.meta import Clocks, Host, Meta
from aiflame.profile.schema.control_schema import GpuSampling
from aiflame.profile.schema.enums import GpuApi
from aiflame.resolve.device.stall_reasons import MEANINGS, meaning, short

GEMM = Sampled(
    "_Z4gemmILi4EEvPf",
    [
        (0x00, "LDC R1, c[0x0][0x28]", line(3), {}),
        (0x10, "LDG.E R4, [R2.64]", line(4), {"long_scoreboard": 60, "long_scoreboard_not_issued": 50, "selected": 5}),
        (0x20, "FADD R4, R4, R5", line(5), {"wait": 20, "wait_not_issued": 20}),
        (0x30, "BAR.SYNC 0x0", line(4), {"barrier": 15}),
    ],
    short="gemm<4>",
    full="void gemm<4>(float*)",
    launches=3,
)
TEXT = "\n".join(["import triton", "", "def kernel(p):", "    x = load(p)", "    return x + 1", ""])


def lines(answer: Annotation) -> dict[tuple[str, int], tuple[int, int]]:
    """(samples, with what was inlined) of each line."""
    return {(at.file, at.number): (at.count.samples, at.inclusive.samples) for file in answer.files for at in file.lines}


def test_samples_of_an_instruction_are_those_of_all_its_reasons(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", GEMM), "gemm")
    assert {one.offset: one.count.samples for one in answer.instructions} == {0: 0, 0x10: 65, 0x20: 20, 0x30: 15}
    assert answer.count.samples == answer.kernel.samples == 100


def test_samples_without_issue_are_a_part_and_never_added(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", GEMM), "gemm")
    load = answer.instructions[1]
    assert load.reasons == {"long_scoreboard": Count(60, 50), "selected": Count(5, 0)}
    assert load.count == Count(65, 50)
    assert answer.reasons["wait"] == Count(20, 20)


def test_a_part_that_is_more_than_its_whole_does_not_change_the_whole(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", Sampled("k", [(0, "EXIT", (), {"drain": 2, "drain_not_issued": 7})])), "k")
    assert answer.reasons == {"drain": Count(2, 7)}


def test_a_line_has_the_samples_of_its_instructions_wherever_they_lie(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", GEMM, sources={CODE: TEXT}), "gemm")
    assert lines(answer) == {(CODE, 3): (0, 0), (CODE, 4): (80, 80), (CODE, 5): (20, 20)}
    fourth = answer.files[0].lines[1]
    assert fourth.text == "    x = load(p)"
    assert list(fourth.reasons) == ["long_scoreboard", "barrier", "selected"]
    assert [[one.offset for one in block.instructions] for block in fourth.blocks] == [[0x10, 0x30]]


INLINED = Sampled(
    "softmax",
    [
        (0x00, "MOV R1, R2", line(88), {"wait": 1}),
        (0x10, "FMNMX R3, R4, R5", [("softmax", CODE, 88), ("max", LIBRARY, 30)], {"wait": 40}),
        (0x20, "FMNMX R3, R4, R6", [("softmax", CODE, 90), ("max", LIBRARY, 30)], {"wait": 50}),
        (0x30, "FADD R3, R4, R6", [("softmax", CODE, 90), ("sum", LIBRARY, 60), ("add", LIBRARY, 70)], {"wait": 9}),
    ],
)


def test_inlined_code_is_shown_at_its_own_line_with_what_it_was_inlined_into(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", INLINED), "softmax")
    thirty = next(at for at in answer.files[1].lines if at.number == 30)
    assert [(block.callers, [one.offset for one in block.instructions]) for block in thirty.blocks] == [
        ((CodeLine("softmax", CODE, 90),), [0x20]),
        ((CodeLine("softmax", CODE, 88),), [0x10]),
    ]


def test_a_line_also_tells_what_was_inlined_into_it(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", INLINED), "softmax")
    own, library = {(CODE, 88): (1, 41), (CODE, 90): (0, 59)}, {(LIBRARY, 30): (90, 90), (LIBRARY, 60): (0, 9), (LIBRARY, 70): (9, 9)}
    assert lines(answer) == own | library


def test_a_line_that_code_was_inlined_into_twice_counts_it_once(tmp_path: Path) -> None:
    recursive = Sampled("k", [(0, "NOP", [("k", CODE, 5), ("f", CODE, 7), ("f", CODE, 7)], {"wait": 3})])
    assert lines(annotate(profile(tmp_path / "p", recursive), "k")) == {(CODE, 5): (0, 3), (CODE, 7): (3, 3)}


def test_a_caller_without_a_line_is_a_part_of_the_chain_alone(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", Sampled("k", [(0, "NOP", [("k", CODE, 0), ("f", LIBRARY, 7)], {"wait": 3})])), "k")
    assert lines(answer) == {(LIBRARY, 7): (3, 3)}
    assert answer.instructions[0].chain == (CodeLine("f", LIBRARY, 7), CodeLine("k", CODE, 0))


def test_the_kernels_own_file_comes_first_then_the_hottest(tmp_path: Path) -> None:
    code = [*INLINED.code, (0x40, "NOP", [("softmax", CODE, 91), ("g", MODEL, 1)], {"wait": 500})]
    answer = annotate(profile(tmp_path / "p", replace(INLINED, code=code)), "softmax")
    assert [file.source.path for file in answer.files] == [CODE, MODEL, LIBRARY]


def test_what_the_compiler_made_up_has_no_line(tmp_path: Path) -> None:
    code = [(0, "NOP", line(0), {"wait": 1}), (0x10, "NOP", (), {"wait": 2}), (0x20, "NOP", line(3), {})]
    answer = annotate(profile(tmp_path / "p", Sampled("k", code)), "k")
    assert [one.offset for one in answer.homeless] == [0, 0x10]


def test_processes_and_windows_are_added_up(tmp_path: Path) -> None:
    reasons = [{"process": 0, "name": VENDOR + "wait"}, {"process": 1, "name": VENDOR + "barrier"}, {"process": 1, "name": VENDOR + "wait"}]
    functions = [{"process": 0, "cubin": 7, "name": "k"}, {"process": 1, "cubin": 8, "name": "z"}, {"process": 1, "cubin": 7, "name": "k"}]
    at = {"offset": 16}
    samples = [
        {"process": 0, "window": 1, "function": 1, "reason": 1, "count": 3, **at},
        {"process": 0, "window": 2, "function": 1, "reason": 1, "count": 4, **at},
        {"process": 1, "window": 1, "function": 2, "reason": 2, "count": 5, **at},
        {"process": 1, "window": 1, "function": 1, "reason": 2, "count": 900, **at},
    ]
    made = sealed(tmp_path / "p", stall_reasons=reasons, gpu_functions=functions, gpu_samples=samples)
    assert annotate(made, "k").reasons == {"wait": Count(12, 0)}


def test_a_sample_without_a_known_reason_counts(tmp_path: Path) -> None:
    samples = [{"function": 1, "reason": 99, "count": 3}]
    made = sealed(tmp_path / "p", gpu_functions=[{"cubin": 7, "name": "k"}], gpu_samples=samples)
    assert annotate(made, "k").reasons == {"unknown": Count(3, 0)}


# Which kernel?

HOT, COLD, UNSAMPLED = (
    Sampled("_Z3hotv", [(0, "EXIT", (), {"wait": 9})], short="Gemm<float>"),
    Sampled("_Z4coldv", [(0, "EXIT", (), {"wait": 2})], short="gemm<double>", launches=50),
    Sampled("_Z4elemv", short="elementwise", each_ns=5),
)


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


def test_what_matches_nothing_is_an_error_that_names_the_hottest(tmp_path: Path) -> None:
    made = profile(tmp_path / "p", COLD, HOT, UNSAMPLED)
    for wanted in ("conv", "conv(", "x" * 10_000):
        with pytest.raises(AiflameError, match=re.escape("the hottest are Gemm<float>, gemm<double>, elementwise")) as error:
            annotate(made, wanted)
        assert len(str(error.value)) < 200


def test_a_profile_without_kernels_says_so(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="no GPU kernel ran in this profile"):
        annotate(sealed(tmp_path / "p"), "gemm")


def test_a_device_function_can_be_asked_for_too(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", replace(GEMM, launches=0)), "gemm")
    assert (answer.kernel.launches, answer.shapes, answer.count.samples) == (0, (), 100)


def test_the_hottest_of_several_cubins_is_shown_and_another_can_be_chosen(tmp_path: Path) -> None:
    other = replace(GEMM, cubin=5, code=[(0x10, "EXIT", (), {"wait": 3})], launches=0)
    made = profile(tmp_path / "p", other, GEMM)
    answer = annotate(made, "gemm")
    assert (answer.cubin, answer.versions, answer.count.samples, answer.kernel.samples) == (CUBIN, {CUBIN: 100, 5: 3}, 100, 103)
    assert annotate(made, "gemm", 5).count == Count(3, 0)
    with pytest.raises(AiflameError, match="use a1b2c3d4e5f60718, 0000000000000005"):
        annotate(made, "gemm", 6)


def test_the_most_frequent_shape_comes_first(tmp_path: Path) -> None:
    rare, often = replace(GEMM, launches=2, shape={"grid_x": 9}, each_ns=10**9), replace(GEMM, launches=7, shape={"grid_x": 4}, code=())
    answer = annotate(profile(tmp_path / "p", rare, often), "gemm")
    assert [(shape.grid, shape.launches) for shape in answer.shapes] == [((4, 1, 1), 7), ((9, 1, 1), 2)]
    assert answer.kernel.launches == 9


# What is missing


def test_without_a_line_table_there_are_instructions_alone(tmp_path: Path) -> None:
    bare = replace(GEMM, code=[(offset, sass, (), waits) for offset, sass, _, waits in GEMM.code])
    answer = annotate(profile(tmp_path / "p", bare), "gemm")
    assert (answer.files, answer.homeless, len(answer.instructions)) == ((), (), 4)
    assert [note.partition(":")[0] for note in answer.notes] == ["no source lines"]


def test_without_sass_there_are_lines_and_offsets(tmp_path: Path) -> None:
    bare = replace(GEMM, code=[(offset, "", chain, waits) for offset, _, chain, waits in GEMM.code])
    answer = annotate(profile(tmp_path / "p", bare), "gemm")
    assert lines(answer)[CODE, 4] == (80, 80)
    assert not answer.disassembled
    assert "pip install nvidia-cuda-nvdisasm" in answer.notes[0]


def test_of_a_stripped_cubin_only_the_sampled_offsets_are_known(tmp_path: Path) -> None:
    bare = replace(GEMM, code=[(offset, "", (), waits) for offset, _, _, waits in GEMM.code])
    answer = annotate(profile(tmp_path / "p", bare), "gemm")
    assert [one.offset for one in answer.instructions] == [0x10, 0x20, 0x30]
    assert [note.partition(":")[0] for note in answer.notes] == ["no SASS", "no source lines"]


def test_a_cubin_that_was_not_kept_is_said_to_be_the_cause(tmp_path: Path) -> None:
    made = sealed(
        tmp_path / "p",
        gpu_functions=[{"cubin": 7, "name": "k"}],
        gpu_samples=[{"function": 1, "reason": 1, "count": 3}],
        stall_reasons=[{"name": VENDOR + "wait"}],
        cubins=[{"crc": 7, "bytes": 0}, {"crc": 8, "bytes": 99}],
    )
    assert annotate(made, "k").notes == ("no SASS and no source lines: the kernel's cubin could not be kept while recording",)


@pytest.mark.parametrize(
    ("made", "options", "says"),
    [
        ([Sampled("k")], {"gpu_sampling": int(GpuSampling.OFF)}, "recorded with --gpu-sampling off"),
        ([Sampled("k")], {"gpu_sampling": int(GpuSampling.AUTO)}, "aiflame doctor"),
        ([Sampled("k"), HOT], {}, "sampling never hit this kernel"),
        ([Sampled("k", api=GpuApi.OPENCL)], {}, "only CUDA kernels are sampled"),
    ],
)
def test_without_samples_it_is_said_how_to_get_them(tmp_path: Path, made: list[Sampled], options: dict[str, int], says: str) -> None:
    answer = annotate(profile(tmp_path / "p", *made, meta=Meta(options={**options})), "k")
    assert (answer.instructions, answer.cubin) == ((), None)
    assert says in answer.notes[0]
    assert "--gpu-sampling" in answer.notes[0] or made[0].api == GpuApi.OPENCL


# The text of sources


def source(tmp_path: Path, *, recorded: bool = False, below: str | None = None) -> tuple[Origin, str | None]:
    """Where the text of line 3 comes from, and what it is. The file is there, too, as old as can be; `below`: --source-path."""
    file = tmp_path / "model/attn.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text("a\nb\non disk\n")
    os.utime(file, ns=(1, 1))
    texts = {str(file): "a\nb\nrecorded\n"} if recorded else {"/other.py": ""}
    meta = Meta(host=Host.here(), started=Clocks(realtime_ns=2))
    kernel = Sampled("k", [(0, "NOP", line(3, str(file)), {"wait": 1})])
    store = profile(tmp_path / "p", kernel, sources=texts, meta=meta)
    folder = SourceFolder(tmp_path / below) if below is not None else None
    answer = annotate(store, "k", texts=SourceTexts(store, folder))
    return answer.files[0].source.origin, answer.files[0].lines[0].text


def test_the_stored_text_comes_first(tmp_path: Path) -> None:
    assert source(tmp_path, recorded=True, below="") == (Origin.PROFILE, "recorded")


def test_a_file_that_the_profile_names_is_not_read(tmp_path: Path) -> None:
    assert source(tmp_path) == (Origin.MISSING, None)


@pytest.mark.parametrize("below", ["", "model"])
def test_the_reader_may_point_to_a_folder_with_the_sources(tmp_path: Path, below: str) -> None:
    assert source(tmp_path, below=below) == (Origin.SOURCE_PATH, "on disk")


def test_below_a_folder_the_longest_tail_of_a_path_is_taken(tmp_path: Path) -> None:
    for place in ("src/model/attn.py", "model/attn.py", "attn.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(place)
    folder = SourceFolder(tmp_path)
    assert folder.read("/home/them/src/model/attn.py") == "src/model/attn.py"
    assert folder.read("/elsewhere/model/attn.py") == "model/attn.py"
    assert folder.read("attn.py") == "attn.py"
    assert folder.read("/elsewhere/none.py") is None


def test_nothing_leads_out_of_the_folder(tmp_path: Path) -> None:
    outside, folder = tmp_path / "private", tmp_path / "src"
    outside.mkdir()
    folder.mkdir()
    (outside / "key.py").write_text("secret")
    (folder / "link.py").symlink_to(outside / "key.py")
    (folder / "sub").symlink_to(outside)
    (folder / "own.py").write_text("own")
    (folder / "inner.py").symlink_to("own.py")
    os.mkfifo(folder / "pipe.py")
    found = SourceFolder(folder)
    assert [
        found.read(path) for path in ("link.py", "sub/key.py", "../private/key.py", "x/../../private/key.py", "pipe.py", "a\0b", "")
    ] == [None] * 7
    assert found.read("inner.py") == "own"


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="--source-path"):
        SourceFolder(tmp_path / "none")


def test_a_line_beyond_the_end_of_its_file_has_no_text(tmp_path: Path) -> None:
    made = profile(tmp_path / "p", Sampled("k", [(0, "NOP", line(99), {"wait": 1})]), sources={CODE: TEXT})
    assert annotate(made, "k").files[0].lines[0].text is None


def test_lines_are_counted_as_compilers_do(tmp_path: Path) -> None:
    """A form feed ends no line; \\r\\n is one end."""
    made = profile(tmp_path / "p", Sampled("k", [(0, "NOP", line(2), {"wait": 1})]), sources={CODE: "a\x0c\u2028b\r\nsecond\r\n"})
    assert annotate(made, "k").files[0].lines[0].text == "second"


# Names and JSON


def test_vendors_names_become_short() -> None:
    assert short("smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued") == "long_scoreboard"
    assert short("smsp__pcsamp_warps_issue_stalled_not_selected") == "not_selected"
    assert short("smsp__pcsamp_warps_issue_stalled_not_selected_not_issued") == "not_selected"
    assert short("something_new") == "something_new"
    assert short("") == "unknown"


def test_reasons_are_explained_where_we_know_them() -> None:
    assert "memory" in meaning("long_scoreboard")
    assert meaning("something_new") == ""
    assert all(MEANINGS.values())


def test_json_has_every_line_and_instruction(tmp_path: Path) -> None:
    answer = json.loads(to_json(annotate(profile(tmp_path / "p", GEMM, HOT, sources={CODE: TEXT}), "gemm")))
    assert set(answer) == {
        *("kernel", "others", "shapes", "sampling", "cubin", "versions", "count", "reasons", "files", "lines", "instructions", "notes"),
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
