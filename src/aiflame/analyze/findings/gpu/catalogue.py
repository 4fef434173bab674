"""The causes of lost GPU time that findings report: for each the smallest share that is reported, and the remedy."""

from __future__ import annotations

from aiflame.values import dataclass

FEW_SAMPLES = 100
"""With this many samples, a share of two fifths has a standard error of 5%."""
FEW_RECORDS = 20
"""Smallest number of launches or copies: fewer are not typical of the program."""


@dataclass(frozen=True, slots=True)
class Cause:
    kind: str
    least: float
    """Smallest share of the time that findings cover: steps, or the whole run."""
    fix: str


CAUSES = (
    Cause(
        "launch-bound",
        0.05,
        "Compile the model with torch.compile(): one kernel then does the work of several, and Python runs less between launches.",
    ),
    Cause(
        "launch-bound-graph",
        0.05,
        'Capture the step in a CUDA graph and replay it: torch.compile(mode="reduce-overhead"), torch.cuda.graph(), cudaGraphLaunch().',
    ),
    Cause(
        "launch-bound-batch",
        0.05,
        "Make the batch larger, or process several inputs at once: a graph launches these kernels already, and they are too small.",
    ),
    Cause(
        "device-synchronize",
        0.05,
        "Remove torch.cuda.synchronize() here: later work on the same stream waits by itself; time with torch.cuda.Event instead.",
    ),
    Cause(
        "pageable-copies",
        0.05,
        "Pin the memory on the host: DataLoader(pin_memory=True), Tensor.pin_memory() or cudaHostAlloc(), and copy with non_blocking=True.",
    ),
    Cause(
        "copies",
        0.05,
        "Copy on a stream of its own while kernels run: torch.cuda.Stream() with non_blocking=True, one batch ahead.",
    ),
    Cause(
        "allocator",
        0.05,
        "Keep GPU memory between steps: remove torch.cuda.empty_cache(), allocate buffers once, and set"
        " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    ),
    Cause(
        "recompiling",
        0.05,
        "Stop recompiling: pad inputs to a few sizes or use torch.compile(dynamic=True); TORCH_LOGS=recompiles prints the failed guard,"
        " JAX_EXPLAIN_CACHE_MISSES=1 the change that JAX met.",
    ),
    Cause(
        "specializing",
        0.05,
        "Let one kernel serve all values: pass the changing argument at run time, without tl.constexpr, and named in do_not_specialize.",
    ),
    Cause(
        "autotuning",
        0.05,
        "Tune once: leave changing sizes out of triton.autotune(key=…), keep its cache (cache_results=True), or set"
        " torch.backends.cudnn.benchmark = False where shapes change.",
    ),
    Cause(
        "unfused-optimizer",
        0.05,
        "Make the optimizer with fused=True (or foreach=True): a few launches then update all parameters.",
    ),
    Cause(
        "serial-streams",
        0.05,
        "Let the streams run at once: launch nothing on the default stream between them (cudaStreamNonBlocking), and wait with events"
        " (Stream.wait_event) instead of synchronizing.",
    ),
    Cause(
        "no-tensor-cores",
        0.1,
        'Use tensor cores: torch.set_float32_matmul_precision("high") allows TF32, torch.autocast("cuda", torch.bfloat16) goes further.',
    ),
    Cause(
        "double-precision",
        0.05,
        "Compute in float32: convert inputs with .float() or numpy.float32, and set torch.set_default_dtype(torch.float32).",
    ),
    Cause(
        "layer-precision",
        0.02,
        "Give this layer the data type of its sisters: remove its .float(), or let torch.autocast() reach it.",
    ),
    Cause(
        "layer-below-limit",
        0.02,
        "Make this layer like its sisters: compare the kernels that they run, their shapes, strides and data types (aiflame top --by layer"
        " --each), and avoid the copy, the cast or the fallback that only it has.",
    ),
    Cause(
        "few-blocks",
        0.1,
        "Launch more blocks: smaller tiles, split the longest loop over blocks (split-K), or a larger batch.",
    ),
    Cause(
        "last-wave",
        0.1,
        "Let the grid fill whole waves: another tile size, a persistent kernel of as many blocks as fit at once, or split-K.",
    ),
    Cause(
        "few-warps-registers",
        0.1,
        "Use fewer registers a thread, so that more warps fit: __launch_bounds__(), maxrregcount or maxnreg, or smaller tiles.",
    ),
    Cause(
        "few-warps-shared",
        0.1,
        "Use less shared memory a block, so that more blocks fit: smaller tiles, or fewer stages (num_stages).",
    ),
    Cause(
        "few-warps-block",
        0.1,
        "Use blocks of 128 to 256 threads (num_warps): so many more warps fit on each multiprocessor.",
    ),
    Cause(
        "spills",
        0.05,
        "Keep values in registers: raise the limit (__launch_bounds__(), maxrregcount), use smaller tiles or more warps (num_warps), and"
        " index local arrays by constants (#pragma unroll).",
    ),
    Cause(
        "atomics",
        0.05,
        "Add up within each block first (shared memory, __reduce_add_sync, tl.sum), and let one thread do the atomic operation.",
    ),
    Cause(
        "shared-memory",
        0.05,
        "Avoid bank conflicts: pad the rows of the tile by one element ([32][33]), swizzle it, or load wider (float4).",
    ),
    Cause(
        "scattered-access",
        0.05,
        "Coalesce: let neighbouring threads read neighbouring addresses (transpose the data or the loop), with vector loads (float4).",
    ),
    Cause(
        "memory-bound",
        0.1,
        "Move fewer bytes: fuse this kernel with its neighbours (torch.compile), or keep its data in a narrower type (bfloat16).",
    ),
    Cause(
        "slow-clocks-power",
        0.05,
        "Raise the power limit (nvidia-smi -pl) if it is below the default; else expect this clock, and compare runs at the same one.",
    ),
    Cause(
        "slow-clocks-heat",
        0.05,
        "Cool the device: look at its fans and airflow, and at other work on it (nvidia-smi -q -d PERFORMANCE,TEMPERATURE).",
    ),
)
OF_KIND = {cause.kind: cause for cause in CAUSES}
OF_KERNELS = frozenset(
    {
        *("no-tensor-cores", "double-precision", "layer-precision", "few-blocks", "last-wave", "few-warps-registers", "few-warps-shared"),
        *("few-warps-block", "spills", "atomics", "shared-memory", "scattered-access", "memory-bound"),
    }
)
"""Causes that explain a kernel: they replace general findings about it."""

OF_LINES = frozenset({"allocator", "recompiling", "specializing", "autotuning"})
"""Causes that explain why the device is idle at a line: they replace these general findings about the same line."""
IDLE_AT_LINE = frozenset({"idle-host", "idle-sync", "idle-optimizer", "device-synchronize"})
EXPLAINS = {
    "pageable-copies": ("copies",),
    "unfused-optimizer": ("idle-optimizer",),
    "layer-precision": ("slow-layer",),
    "layer-below-limit": ("slow-layer",),
}
"""The general findings that a cause replaces."""


def least(kind: str) -> float:
    return OF_KIND[kind].least
