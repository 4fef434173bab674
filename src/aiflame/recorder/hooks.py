"""The hook table: all environment variables through which the collector is loaded into a program. A new hook is one row.

All rows lead to the same collector, which is loaded once: they name it, or a small library that calls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path

from aiflame.profile.schema.control_schema import Feature
from aiflame.recorder.command import is_sanitizer
from aiflame.recorder.library import agent, collector, hip_library, level_zero_library, memory_library, mpi_library
from aiflame.recorder.mpi import uses_mpi
from aiflame.values import dataclass


class Chain(Enum):
    """How a value is treated that the user has already set."""

    FIRST = "ours goes in front of it, behind sanitizers' runtimes"
    SECOND = "ours goes behind the collector, in front of the rest"
    LAST = "ours goes behind it"
    YIELD = "it stays, ours is left out, and a note says so"


@dataclass(frozen=True, slots=True)
class Hook:
    variable: str
    chain: Chain
    feature: Feature | None
    """The feature for which it is set; None: always."""
    without: str = ""
    """The data that a recording lacks if the variable has another value."""
    library: Callable[[], Path] = collector
    wanted: Callable[[Mapping[str, str], Sequence[str]], bool] | None = None
    """True if this environment and command need it although the user has not named its feature; None: always."""


HOOKS = (
    Hook("LD_PRELOAD", Chain.FIRST, None),
    Hook("LD_PRELOAD", Chain.SECOND, Feature.TRACE_MPI, library=mpi_library, wanted=uses_mpi),
    Hook("LD_PRELOAD", Chain.SECOND, Feature.TRACE_ZE, library=level_zero_library),
    Hook("LD_PRELOAD", Chain.SECOND, Feature.TRACE_HIP, library=hip_library),
    Hook("LD_PRELOAD", Chain.SECOND, Feature.HOST_MEMORY, library=memory_library),
    Hook("INTEL_JIT_PROFILER64", Chain.YIELD, Feature.JIT, "names of oneDNN's run-time code", agent),
    Hook("CUDA_INJECTION64_PATH", Chain.YIELD, Feature.CUDA, "GPU kernels", agent),
    Hook("NVTX_INJECTION64_PATH", Chain.YIELD, Feature.NVTX, "regions that the program marks by NVTX", agent),
    Hook("INTEL_LIBITTNOTIFY64", Chain.YIELD, Feature.ITT, "regions that the program marks by ITT", agent),
    Hook("NCCL_PROFILER_PLUGIN", Chain.YIELD, Feature.TRACE_NCCL, "calls of NCCL", agent),
    Hook("OPENCL_LAYERS", Chain.LAST, Feature.OPENCL),
    Hook("OMP_TOOL_LIBRARIES", Chain.LAST, Feature.OPENMP),
)


PRELOADED_FIRST = "AIFLAME_PRELOADED_FIRST"
"""A variable with the library that is loaded before the collector in this program; its children need not have it."""

_SEPARATORS = "[: ]+"
"""Separators of the libraries in LD_PRELOAD."""


def environment(
    base: Mapping[str, str], profile: Path, features: int, command: Sequence[str] = (), *, asked: int = 0, first: str = ""
) -> tuple[dict[str, str], list[str]]:
    """`base` with all hooks for `command`, and notes on those that could not be set.

    `asked`: features that the user has named; `first`: a library that the command needs before all others."""
    result, notes = dict(base), []
    result["AIFLAME_PROFILE"] = str(profile)
    if first and not any(is_sanitizer(library) for library in re.split(_SEPARATORS, result.get("LD_PRELOAD", ""))):
        result["LD_PRELOAD"] = ":".join(filter(None, [first, result.get("LD_PRELOAD", "")]))
        result[PRELOADED_FIRST] = first
    for hook in HOOKS:
        if hook.feature is not None and not features & hook.feature:
            continue
        if hook.wanted is not None and not (hook.feature or 0) & asked and not hook.wanted(base, command):
            continue
        library = hook.library()
        value = result.get(hook.variable, "")
        if str(library) in value.split(":"):
            continue
        if not value:
            result[hook.variable] = str(library)
        elif hook.chain is Chain.FIRST:
            result[hook.variable] = _behind_sanitizers(str(library), value)
        elif hook.chain is Chain.SECOND:
            before, own, after = value.partition(str(collector()))
            result[hook.variable] = f"{before}{own}:{library}{after}"
        elif hook.chain is Chain.LAST:
            result[hook.variable] = f"{value}:{library}"
        else:
            notes.append(f"{hook.variable} is already set to {value}: recording without {hook.without}")
    return result, notes


def _behind_sanitizers(library: str, value: str) -> str:
    entries = [entry for entry in re.split(_SEPARATORS, value) if entry]
    place = next((at for at, entry in enumerate(entries) if not is_sanitizer(entry)), len(entries))
    return ":".join([*entries[:place], library, *entries[place:]])
