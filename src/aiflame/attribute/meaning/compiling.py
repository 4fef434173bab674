"""Functions of compilers and autotuners. Their work belongs to no layer, even if the call of a layer started it."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints

AUTOTUNING, COMPILING = 1, 2
NAMES = {AUTOTUNING: "[autotuning]", COMPILING: "[compiling]"}

_FUNCTIONS = r"^[a-z_]|\."
"""Functions and methods. The bodies of modules and classes do not count: they run when a module is imported."""
_TRIES = r"autotune_to_one_config$|benchmark_all_configs$|coordinate_descent_tuning$|\.bench(\.|$)"
_TUNERS = {
    r"triton/runtime/autotuner\.py": r"(^|\.)(_bench|benchmark|prune_configs)$",
    r"torch/_inductor/(runtime/)?triton_heuristics\.py": _TRIES,
    r"torch/_inductor/(runtime/)?(benchmarking|coordinate_descent_tuner|autotune_process)\.py": _FUNCTIONS,
    r"torch/_inductor/select_algorithm\.py": r"autotun|benchmark|AlgorithmSelectorCache\.__call__",
    r"torch/_inductor/codegen/multi_kernel\.py": r"benchmark_sub_kernels",
    r"torch/_inductor/codegen/wrapper\.py": r"generate_and_run_autotune_block$",
}
"""Python files, and the functions in them that try out variants of kernels. (`Autotuner.run` and `CachingAutotuner.run` do not count: they
also launch the chosen kernel.)"""
_TUNES = r"^xla::.*(Autotun|AlgorithmPicker)"
_COMPILERS = {
    r"torch/_dynamo/convert_frame\.py": _FUNCTIONS,
    r"torch/_inductor/compile_fx\.py": r"^_?compile_fx(_\w+)?$",
    r"triton/compiler/compiler\.py": r"^compile$",
    r"jax/_src/compiler\.py": r"backend_compile|compile_or_get_cached",
}
_COMPILES = r"^xla::.*Compiler::(RunBackend|RunHloPasses|Compile)"


def compiler_marks(words: int, python: pl.DataFrame, native: pl.DataFrame) -> Ints:
    """AUTOTUNING, COMPILING or 0 for each frame word, by the functions of the words (word, name, file)."""
    marks = np.zeros(words, dtype=np.int64)
    file, name = pl.col("file"), pl.col("name")
    for mark, files, functions in ((COMPILING, _COMPILERS, _COMPILES), (AUTOTUNING, _TUNERS, _TUNES)):
        of_python = [file.str.contains(f"(^|/){path}$") & name.str.contains(called) for path, called in files.items()]
        for symbols, which in ((python, pl.any_horizontal(of_python)), (native, name.str.contains(functions))):
            if not symbols.is_empty():
                marks[symbols.filter(which)["word"].to_numpy()] = mark
    return marks
