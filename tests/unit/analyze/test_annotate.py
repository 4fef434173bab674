"""A kernel, taken apart: the samples of its instructions and lines, and the notes where some are missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from profiles import sealed
from sampled_kernels import CODE, GEMM, HOT, LIBRARY, MODEL, TEXT, VENDOR, Sampled, line, profile

from aiflame.analyze.kernel.annotate import Annotation, CodeLine, Count, annotate
from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.control_schema import GpuSampling
from aiflame.profile.schema.enums import GpuApi


def lines(answer: Annotation) -> dict[tuple[str, int], tuple[int, int]]:
    """For each line: its samples, and its samples with inlined code."""
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


def test_inlined_code_is_shown_at_its_own_line_with_its_callers(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", INLINED), "softmax")
    thirty = next(at for at in answer.files[1].lines if at.number == 30)
    assert [(block.callers, [one.offset for one in block.instructions]) for block in thirty.blocks] == [
        ((CodeLine("softmax", CODE, 90),), [0x20]),
        ((CodeLine("softmax", CODE, 88),), [0x10]),
    ]


def test_a_line_also_counts_its_inlined_code(tmp_path: Path) -> None:
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


def test_generated_code_has_no_line(tmp_path: Path) -> None:
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
    stored = sealed(tmp_path / "p", stall_reasons=reasons, gpu_functions=functions, gpu_samples=samples)
    assert annotate(stored, "k").reasons == {"wait": Count(12, 0)}


def test_a_sample_without_a_known_reason_counts(tmp_path: Path) -> None:
    samples = [{"function": 1, "reason": 99, "count": 3}]
    stored = sealed(tmp_path / "p", gpu_functions=[{"cubin": 7, "name": "k"}], gpu_samples=samples)
    assert annotate(stored, "k").reasons == {"unknown": Count(3, 0)}


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


def test_a_kernel_of_an_intel_gpu_without_samples(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", Sampled("k", api=GpuApi.LEVEL_ZERO)), "k")
    assert answer.notes[0].startswith("no samples: Linux's xe driver samples Intel's GPUs: aiflame doctor")


def test_a_cubin_that_was_not_kept_is_said_to_be_the_cause(tmp_path: Path) -> None:
    stored = sealed(
        tmp_path / "p",
        gpu_functions=[{"cubin": 7, "name": "k"}],
        gpu_samples=[{"function": 1, "reason": 1, "count": 3}],
        stall_reasons=[{"name": VENDOR + "wait"}],
        cubins=[{"crc": 7, "bytes": 0}, {"crc": 8, "bytes": 99}],
    )
    assert annotate(stored, "k").notes == ("no SASS and no source lines: the kernel's cubin could not be kept while recording",)


@pytest.mark.parametrize(
    ("kernels", "options", "says"),
    [
        ([Sampled("k")], {"gpu_sampling": int(GpuSampling.OFF)}, "recorded with --gpu-sampling off"),
        ([Sampled("k")], {"gpu_sampling": int(GpuSampling.AUTO)}, "aiflame doctor"),
        ([Sampled("k"), HOT], {}, "sampling never hit this kernel"),
        ([Sampled("k", api=GpuApi.OPENCL)], {}, "only kernels of CUDA, HIP and Intel's GPUs are sampled"),
        ([Sampled("k", api=GpuApi.HIP)], {}, "ROCPROFILER_PC_SAMPLING_BETA_ENABLED=on"),
    ],
)
def test_without_samples_it_is_said_how_to_get_them(tmp_path: Path, kernels: list[Sampled], options: dict[str, int], says: str) -> None:
    answer = annotate(profile(tmp_path / "p", *kernels, meta=Meta(options={**options})), "k")
    assert (answer.instructions, answer.cubin) == ((), None)
    assert says in answer.notes[0]
    assert "--gpu-sampling" in answer.notes[0] or kernels[0].api in (GpuApi.OPENCL, GpuApi.HIP)


def test_a_kernel_of_amd_is_said_to_lack_its_own_tool(tmp_path: Path) -> None:
    answer = annotate(profile(tmp_path / "p", Sampled("k", [(0, "", line(4), {"waitcnt": 2})], api=GpuApi.HIP)), "k")
    assert answer.language == "ISA"
    assert answer.notes == (
        "no instructions: no llvm-objdump here knows this GPU: install ROCm's LLVM (rocm-llvm), then open the profile again",
    )


def test_a_kernel_of_intel_has_opcodes_in_any_case(tmp_path: Path) -> None:
    kernel = Sampled("k", [(0, "(W) mov (16|M0) r1.0<1>:ud 0x0:ud", (), {"sbid": 2})], api=GpuApi.LEVEL_ZERO)
    answer = annotate(profile(tmp_path / "p", kernel), "k")
    assert answer.language == "ISA"
    assert answer.notes == ("no source lines: the kernel's module has none: compile SYCL or OpenCL C with -gline-tables-only or -g",)
