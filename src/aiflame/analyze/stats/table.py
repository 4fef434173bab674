"""The table of reports, and how a name finds its row."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import polars.selectors as cs

from aiflame.analyze.stats import hta, hta_counters, nsys, torch, tracelens, tracelens_trees
from aiflame.analyze.stats.op_inputs import key_averages_by_shape, unique_arguments
from aiflame.analyze.stats.report import Report
from aiflame.analyze.stats.sequences import kernel_sequences
from aiflame.analyze.stats.torch_stacks import key_averages_by_stack
from aiflame.attribute.analysis import Analysis
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import Tables

_NO_LAUNCH = "no kernel or copy in this profile has a launch that is known"
_NO_COPY = "nothing was copied on a device in this profile"
_NO_COMMUNICATION = "no kernel in this profile communicates"
_NO_OP = "no op of torch is known in this profile"
_NO_CALL = "this profile has no single calls of ops: only imported traces have them"
_NO_SHAPES = "no shapes of inputs are known in this profile: imported traces of torch.profiler with record_shapes=True have them"

_ROWS = (
    Report("hta.temporal-breakdown", "time of each device: idle, computing, other work", "get_temporal_breakdown", hta.temporal_breakdown),
    Report("hta.idle-time-breakdown", "why each stream was idle", "get_idle_time_breakdown", hta.idle_time_breakdown),
    Report("hta.kernel-types", "time by kind of work, and of kinds together", "get_gpu_kernel_breakdown (first table)", hta.kernel_types),
    Report("hta.kernel-breakdown", "each kernel by kind of work", "get_gpu_kernel_breakdown (second table)", hta.kernel_breakdown),
    Report("hta.comm-comp-overlap", "communication during computation", "get_comm_comp_overlap", hta.overlap, _NO_COMMUNICATION),
    Report("hta.queue-length", "launches waiting in each stream", "get_queue_length_summary", hta_counters.queue_length, _NO_LAUNCH),
    Report(
        "hta.queue-length-series", "the same at each change", "get_queue_length_time_series", hta_counters.queue_length_series, _NO_LAUNCH
    ),
    Report("hta.memory-bandwidth", "bandwidth of copies", "get_memory_bw_summary", hta_counters.memory_bandwidth, _NO_COPY),
    Report(
        "hta.memory-bandwidth-series",
        "the same at each change",
        "get_memory_bw_time_series",
        hta_counters.memory_bandwidth_series,
        _NO_COPY,
    ),
    Report("hta.augmented-counters", "both series as counters", "generate_trace_with_counters", hta_counters.augmented_counters),
    Report(
        "hta.launch-statistics",
        "slow launches, short kernels, late kernels",
        "get_cuda_kernel_launch_stats (its plots)",
        hta_counters.launch_statistics,
        _NO_LAUNCH,
    ),
    Report("hta.launches", "each launch with its kernel", "get_cuda_kernel_launch_stats (its table)", hta_counters.launches, _NO_LAUNCH),
    Report(
        "hta.kernel-sequences",
        "kernels that ops launch in the same order",
        "get_frequent_cuda_kernel_sequences",
        kernel_sequences,
        "no op of an imported trace launched three kernels or more",
    ),
    Report("nsys.cuda-gpu-kern-sum", "kernels: count and times", "cuda_gpu_kern_sum", nsys.gpu_kernels, "no kernel ran in this profile"),
    Report("nsys.cuda-gpu-mem-time-sum", "copies: count and times", "cuda_gpu_mem_time_sum", nsys.memory_times, _NO_COPY),
    Report("nsys.cuda-gpu-mem-size-sum", "copies: count and bytes", "cuda_gpu_mem_size_sum", nsys.memory_sizes, _NO_COPY),
    Report(
        "nsys.cuda-api-sum",
        "calls of CUDA and other runtimes",
        "cuda_api_sum",
        nsys.api_calls,
        "no call of a runtime of devices was traced in this profile",
    ),
    Report("nsys.nvtx-sum", "marked ranges of all styles", "nvtx_sum", nsys.ranges, "the program marked no range"),
    Report("nsys.nvtx-pushpop-sum", "nested ranges", "nvtx_pushpop_sum", nsys.nested_ranges, "the program marked no nested range"),
    Report(
        "nsys.osrt-sum",
        "calls of system libraries",
        "osrt_sum",
        nsys.system_call_sums,
        "no call of a library of the system was traced: imported reports of nsys have them",
    ),
    Report("nsys.cuda-gpu-trace", "each kernel and copy", "cuda_gpu_trace", nsys.gpu_trace),
    Report("nsys.cuda-kern-exec-sum", "calls, queues and kernels", "cuda_kern_exec_sum", nsys.kernel_executions, _NO_LAUNCH),
    Report(
        "nsys.nccl-gpu-overlap-trace",
        "each kernel that communicates, and its overlap",
        "recipe nccl_gpu_overlap_trace",
        nsys.communication_overlap,
        _NO_COMMUNICATION,
    ),
    Report("torch.key-averages", "ops: own and total time on CPUs and devices, calls", "key_averages()", torch.key_averages, _NO_OP),
    Report(
        "torch.key-averages-by-shape",
        "ops by the shapes of their inputs",
        "key_averages(group_by_input_shape=True)",
        key_averages_by_shape,
        _NO_SHAPES,
    ),
    Report(
        "torch.key-averages-by-stack",
        "ops by the Python code around them",
        "key_averages(group_by_stack_n=5)",
        key_averages_by_stack,
        _NO_CALL,
    ),
    Report(
        "tracelens.gpu-timeline", "time of each device, exposed communication and copies", "get_df_gpu_timeline", tracelens.gpu_timeline
    ),
    Report("tracelens.ops-summary", "ops that launched kernels", "get_df_kernel_launchers_summary", tracelens.ops),
    Report(
        "tracelens.ops-summary-by-category",
        "the same by family of the kernels",
        "get_df_kernel_launchers_summary_by_category",
        tracelens.ops_by_category,
    ),
    Report(
        "tracelens.ops-unique-args",
        "ops by shapes, types and other arguments",
        "get_df_kernel_launchers_unique_args",
        unique_arguments,
        _NO_SHAPES,
    ),
    Report("tracelens.kernel-launchers", "ops with each of their kernels", "get_df_kernel_launchers", tracelens.kernel_launchers),
    Report(
        "tracelens.roofline",
        "ops: operations, bytes, rates, and the share of their limit",
        "build_df_unified_perf_table",
        tracelens_trees.roofline,
        "no limit is known for a kernel of this profile: see docs/limits.md",
    ),
    Report(
        "tracelens.module-tree",
        "modules, each below its caller, with their times",
        "build_nn_module_latency_tree",
        tracelens_trees.module_tree,
        "no module of a model is known in this profile",
        only_in_files=("path",),
    ),
    Report(
        "tracelens.xla-summary",
        "kernels by the instruction of XLA (JAX)",
        "xla_summary",
        tracelens_trees.xla_summary,
        "no kernel in this profile belongs to an op of JAX",
    ),
    Report(
        "tracelens.coll-analysis",
        "collectives: bytes, time, bandwidth",
        "NcclAnalyser",
        tracelens.collectives,
        "no call that communicates is known in this profile",
    ),
)
REPORTS: Mapping[str, Report] = {row.name: row for row in _ROWS}


def named(name: str) -> Report:
    """The report of this name. `-`, `_` and case do not matter, and a tool's own name may stand alone: `cuda_api_sum`."""
    plain = _plain(name)
    matching = [row for row in _ROWS if plain in (_plain(row.name), _plain(row.name.partition(".")[2]), _plain(row.theirs))]
    if len(matching) == 1:
        return matching[0]
    raise UnknownReport(name)


class UnknownReport(AiflameError):
    """There is no report of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no report {name!r}: `aiflame stats` lists them")
        self.name = name


def stats(profile: Tables, name: str) -> pl.DataFrame:
    """The report of this name: a frame whose columns end in their units."""
    return named(name).compute(Analysis.of(profile)).with_columns(cs.float().fill_nan(None))


def _plain(name: str) -> str:
    return name.lower().removeprefix("get_").replace("_", "-").strip("-")
