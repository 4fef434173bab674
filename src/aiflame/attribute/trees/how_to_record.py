"""Explains why a profile lacks something, and how to record it: a line for each, for people."""

from __future__ import annotations

import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.energy.power import CPUS, unreadable
from aiflame.attribute.stacks.own_metrics import metric_rows
from aiflame.attribute.tree import ENERGY
from aiflame.errors import AiflameError
from aiflame.profile.folder.meta import Imported, Meta
from aiflame.profile.schema.control_schema import GpuSampling
from aiflame.profile.schema.enums import GpuApi
from aiflame.profile.tables.interface import OpenedProfile, Tables

LONGER = "record it for longer, with a higher --cpu-rate, or with --wall"
"""Advice for a profile without any data."""
_INTEL_GPU = r"^Intel\(R\) .*(Graphics|GPU)"
"""Names of devices of OpenCL; those of CPUs have other words."""


def origin(profile: Tables) -> Imported | None:
    """Where an imported profile comes from; None for a recording."""
    opened = profile.profile if isinstance(profile, Analysis) else profile
    meta = getattr(opened, "meta", None)
    return meta.imported if isinstance(meta, Meta) else None


def why_empty(profile: Tables) -> str:
    """Why a profile has no values at all."""
    if (file := origin(profile)) is not None:
        return f"this file of {file.format} has no times, and no values of stacks"
    return f"the program ended too soon to be sampled; {LONGER}"


def how_to_record(profile: Tables, metric: str) -> str:
    """How to record a metric that this profile lacks."""
    if (file := origin(profile)) is not None:
        return f"record with aiflame: this file of {file.format} does not have it"
    if metric != ENERGY.name:
        return metric_rows(profile)[metric].record
    if not profile.has("telemetry_series"):
        return "record without --telemetry off"
    if not is_empty(profile, "kernels"):
        return "record where the GPU's driver reports its power (`aiflame doctor`)"
    if unreadable(profile, CPUS):
        return "let the recorder read the energy of CPUs, which only root may: sudo chmod a+r /sys/class/powercap/intel-rapl*/energy_uj"
    return "record where the system reports the energy of CPUs (/sys/class/powercap), or a program that uses a GPU"


def how_to_sample(profile: OpenedProfile, kernel: str) -> str:
    """Why a kernel (by its name as compiled) has no samples, and how to get some."""
    if (file := origin(profile)) is not None:
        return f"no samples: this file of {file.format} has none of the instructions of kernels; aiflame record takes them"
    runs = profile.scan("kernel_shapes").filter(pl.col("name") == kernel).select("api", "device").unique().collect()
    on_intel = runs.filter((pl.col("api") == int(GpuApi.LEVEL_ZERO)) | pl.col("device").str.contains(_INTEL_GPU))
    apis = set(runs["api"])
    if not apis & {GpuApi.CUDA, GpuApi.HIP} and on_intel.is_empty():
        return (
            "no samples: only kernels of CUDA, HIP and Intel's GPUs are sampled; for OpenCL on a CPU use: aiflame flame --metric cpu-time"
            " --detail line"
        )
    if apis == {int(GpuApi.HIP)} and not profile.has("gpu_windows"):
        return "no samples: AMD's GPUs are sampled where you set ROCPROFILER_PC_SAMPLING_BETA_ENABLED=on (read docs/amd.md before)"
    if profile.has("gpu_windows"):
        return "no samples: sampling never hit this kernel, its runs are too short: record longer, or more often: --gpu-sampling 4096"
    if profile.meta.options.get("gpu_sampling") == int(GpuSampling.OFF):
        return "no samples: recorded with --gpu-sampling off: record again with --gpu-sampling auto"
    if len(on_intel):
        return "no samples: Linux's xe driver samples Intel's GPUs: aiflame doctor says what it lacks here"
    return "no samples: record with --gpu-sampling auto; where the driver does not permit it, aiflame doctor names the setting"


def is_empty(profile: Tables, table: str) -> bool:
    """True if the table has no rows. A damaged table counts as having some."""
    try:
        return profile.scan(table).head(1).collect().is_empty()
    except AiflameError:
        return False
