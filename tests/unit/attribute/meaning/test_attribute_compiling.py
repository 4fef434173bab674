"""Work of compilers and autotuners: a frame of its own, never a layer's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from device_work import lines
from written_programs import CALL_IMPL, MM, TRAIN, Program

from aiflame.attribute.trees.build import tree

SITE = "/venv/lib/python3.12/site-packages/"
HEURISTICS = SITE + "torch/_inductor/runtime/triton_heuristics.py"
GENERATED = ("call", "/tmp/torchinductor_me/ab/cabc.py")
LAYER = (TRAIN, CALL_IMPL, "layer model", CALL_IMPL, "layer model/h.0")


def by_layer(path: Path, metric: str, program: Program) -> dict[str, int]:
    return {stack.partition(";")[2]: value for stack, value in lines(tree(program.profile(path), metric, "layer"), metric).items()}


INDUCTOR = [("CachingAutotuner.run", HEURISTICS), ("CachingAutotuner.autotune_to_one_config", HEURISTICS)]
TRITON = [("Autotuner.run", SITE + "triton/runtime/autotuner.py"), ("Autotuner._bench", SITE + "triton/runtime/autotuner.py")]
TEMPLATES = [("_compile", SITE + "torch/_dynamo/convert_frame.py"), ("benchmark_choices", SITE + "torch/_inductor/select_algorithm.py")]
BENCH = ("do_bench", SITE + "triton/testing.py")


@pytest.mark.parametrize(
    "tuner",
    [
        [GENERATED, *INDUCTOR, ("CachingAutotuner.bench.<locals>.kernel_call", HEURISTICS)],
        [*TRITON, BENCH],
        TEMPLATES,
        [("backend_compile", SITE + "jax/_src/compiler.py")],
        ["xla::gpu::AutotunerUtil::Autotune"],
    ],
)
def test_kernels_that_an_autotuner_tries_belong_to_no_layer(tmp_path: Path, tuner: list[Any]) -> None:
    program = Program()
    program.launch(*LAYER, *tuner, MM, name="gemm")
    program.launch(*LAYER, MM, name="gemm")
    values = by_layer(tmp_path, "gpu-time", program)
    del values["[GPU idle]"]
    assert values == {"Forward;[autotuning];[autotuning];gemm_[G]": 1, "Forward;h.0;aten::mm;gemm_[G]": 1}


@pytest.mark.parametrize(
    "called",
    [
        [GENERATED, INDUCTOR[0]],  # the kernel that was chosen
        [TRITON[0]],
        [BENCH],  # the program's own benchmark
        [("run", "/app/autotuner.py"), ("_bench", "/app/autotuner.py")],
        [("wrapper.<locals>.run", SITE + "torch/_inductor/compile_fx.py")],
    ],
)
def test_kernels_that_are_no_trial_stay_in_their_layer(tmp_path: Path, called: list[Any]) -> None:
    program = Program()
    program.launch(*LAYER, *called, MM, name="gemm")
    assert not [path for path in by_layer(tmp_path, "gpu-time", program) if "autotuning" in path]


def test_time_in_compilers_belongs_to_no_layer_either(tmp_path: Path) -> None:
    program = Program()
    program.sample(*LAYER, ("ConvertFrame.__call__", SITE + "torch/_dynamo/convert_frame.py"), ("trace", "/x.py"))
    program.sample(*LAYER, *TRITON)
    program.sample(*LAYER, ("<module>", SITE + "torch/_dynamo/convert_frame.py"), ("Tracker", SITE + "torch/_dynamo/convert_frame.py"))
    program.sample(*LAYER, MM)
    values = by_layer(tmp_path, "cpu-time", program)
    layers = [path.split(";")[1] for path in values]
    assert {layer: layers.count(layer) for layer in layers} == {"[autotuning]": 1, "[compiling]": 1, "h.0": 2}
