"""Trees to draw: small ones whose shares are known by construction, a realistic one, hostile ones, a large one."""

from __future__ import annotations

import numpy as np

from aiflame.attribute.transforms.difference import diff
from aiflame.attribute.tree import CPU_TIME, GPU_TIME, Frame, Kind, Tree, frame_table, from_stacks

MS = 1_000_000


def small() -> Tree:
    """1000 ms: main 1000 → work 700 (itself 100 → gemm 600 → work 200), main → idle 300. `work` nests in itself."""
    main, work, gemm = (
        Frame("main", Kind.PYTHON, "app.py", 3),
        Frame("work", Kind.PYTHON, "app.py", 9),
        Frame("Gemm", Kind.CPP, module="libmath.so"),
    )
    idle = Frame("idle_wait", Kind.WAIT)
    return from_stacks(
        [
            ([main, work], 100 * MS),
            ([main, work, gemm], 400 * MS),
            ([main, work, gemm, work], 200 * MS),
            ([main, idle], 300 * MS),
        ],
        CPU_TIME,
    )


STALLS = ("long_scoreboard", "wait", "math_pipe_throttle", "barrier", "short_scoreboard", "selected", "mio_throttle")
MNEMONICS = ("HGMMA.64x128x16.F32.BF16", "LDG.E.128", "LDSM.16.M88.4", "FFMA", "BAR.SYNC", "STG.E.128", "MUFU.EX2", "IADD3")
LAYERS = (
    ("Attention.forward", 61, "at::_flash_attention_forward", "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64>>", 30),
    ("Attention.qkv", 58, "at::native::addmm", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", 22),
    ("MLP.forward", 77, "at::native::addmm", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize256x128x64", 34),
    ("MLP.gelu", 78, "at::native::gelu_kernel", "vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", 8),
    ("RMSNorm.forward", 31, "at::native::mean_kernel_cuda", "reduce_kernel<512, 1, ReduceOp<float, MeanOps>>", 6),
)


def training(seed: int = 1) -> Tree:
    """A training step as a GPU profile shows it: process → Python → C++ → `-` → kernel → line → instruction → stall → offset."""
    random = np.random.default_rng(seed)
    stacks: list[tuple[list[Frame], int]] = []

    def kernel(above: list[Frame], op: str, name: str, weight: float) -> None:
        calls = [_cpp(op), _cpp("c10::Dispatcher::call"), _cpp(op + "_cuda", "libtorch_cuda.so"), _c("cudaLaunchKernel")]
        stack = [*above, *calls, _c("cuLaunchKernel", "libcuda.so.1"), Frame("-", Kind.BOUNDARY)]
        stack.append(Frame(name, Kind.GPU_KERNEL, full_name="void " + name))
        for line in random.choice(60, 4, replace=False).tolist():
            for mnemonic in random.choice(MNEMONICS, 3, replace=False).tolist():
                for stall in random.choice(STALLS, 3, replace=False).tolist():
                    for offset in random.choice(200, 2, replace=False).tolist():
                        inside = [
                            Frame(f"kernel.cuh:{line}", Kind.GPU_LINE, "kernel.cuh", line),
                            Frame(mnemonic, Kind.GPU_INSTRUCTION),
                            Frame(stall, Kind.GPU_STALL),
                            Frame(f"+{offset * 16:#x}", Kind.GPU_OFFSET),
                        ]
                        stacks.append(([*stack, *inside], int(weight * random.gamma(1.3) * MS)))

    process = Frame("python train.py (rank 0)", Kind.PROCESS)
    step = [process, Frame("MainThread", Kind.THREAD), _py("<module>", 210), _py("main", 188), _py("train_epoch", 121)]
    step.append(_py("train_step", 96))
    engine = [process, Frame("pt_autograd_0", Kind.THREAD), _cpp("Engine::thread_main"), _cpp("Engine::evaluate_function")]
    call = _py("Module._call_impl", 1751, "torch/nn/modules/module.py")
    for block in range(6):
        forward = [*step, call, _py("Transformer.forward", 88, "model.py"), call, Frame(f"layers.{block}", Kind.LAYER)]
        forward += [_py("Block.forward", 71, "model.py"), call]
        backward = [*engine, Frame(f"layers.{block} backward", Kind.LAYER)]
        for name, line, op, kernel_name, weight in LAYERS:
            kernel([*forward, _py(name, line, "model.py")], op, kernel_name, weight * random.uniform(0.8, 1.2))
            kernel(backward, op + "_backward", kernel_name.replace("fwd", "bwd"), weight * 1.7)
    optimizer = [*step, _py("AdamW.step", 220, "torch/optim/adamw.py"), Frame("optimizer", Kind.REGION)]
    kernel(optimizer, "at::_fused_adamw_", "multi_tensor_apply_kernel<FusedAdamMathFunctor>", 60)

    loader = [process, Frame("DataLoader_0", Kind.THREAD), _py("_worker_loop", 320, "torch/utils/data/worker.py")]
    reading = [_c("read", "libc.so.6"), Frame("vfs_read", Kind.OS_KERNEL), Frame("ext4_file_read_iter", Kind.OS_KERNEL)]
    stacks.append(([*loader, _c("inflate_fast", "libz.so.1")], 700 * MS))
    stacks.append(([*loader, *reading], 420 * MS))
    stacks.append(([*loader, Frame("[lock]", Kind.WAIT)], 500 * MS))
    matmul = [*step, _py("loss.item", 101), _cpp("matmul_tiled", "libdemo.so")]
    for line, text in ((40, "vfmadd231ps @ +0x1f"), (41, "vmovups @ +0x3a"), (44, "vbroadcastss @ +0x5c")):
        inside = [Frame(f"matmul.cpp:{line}", Kind.CPU_LINE, "matmul.cpp", line), Frame(text, Kind.CPU_INSTRUCTION)]
        stacks.append(([*matmul, *inside], 300 * MS))
    stacks.append(([process, Frame("[unattributed: launch not seen]", Kind.UNATTRIBUTED)], 650 * MS))
    return from_stacks(stacks, GPU_TIME)


def _py(name: str, line: int, file: str = "train.py") -> Frame:
    return Frame(name, Kind.PYTHON, file, line)


def _cpp(name: str, module: str = "libtorch_cpu.so") -> Frame:
    return Frame(name, Kind.CPP, module=module, full_name=f"{name}(at::Tensor const&, at::Tensor const&)")


def _c(name: str, module: str = "libcudart.so.12") -> Frame:
    return Frame(name, Kind.C, module=module)


HOSTILE_NAMES = (
    "]]>",
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "</text><rect onload='window.hacked=1'/>",
    "nul\x00esc\x1bnewline\ntab\t",
    "\u202egnp.exe\u2066x",
    "&amp;&lt;&#0;",
    "long " + "x" * 100_000,
    "",
    "𝒳 emoji 🔥 日本語 \uffff",
    "javascript:window.hacked=1",
)


def hostile() -> Tree:
    """A name in every column that a careless writer would let break out."""
    frames = [Frame(name, Kind.CPP, name, 7, name, name + " full") for name in HOSTILE_NAMES]
    main = Frame("main", Kind.C)
    return from_stacks([*(([main, frame], 100) for frame in frames), (frames[:4], 50)], CPU_TIME)


def recursion(depth: int) -> Tree:
    return from_stacks([([Frame("fib", Kind.PYTHON, "fib.py", 1)] * depth, 10), ([Frame("main", Kind.C)], 10)], CPU_TIME)


def difference() -> Tree:
    """Base 1000 → new 1200: `same` 400 → 400, `grown` 300 → 600, `shrunk` 200 → 100, `gone` 100 → 0, `added` 0 → 100."""
    base = {"same": 400, "grown": 300, "shrunk": 200, "gone": 100}
    new = {"same": 400, "grown": 600, "shrunk": 100, "added": 100}
    return diff(_under_main(base), _under_main(new), CPU_TIME.name)


def _under_main(amounts: dict[str, int]) -> Tree:
    main = Frame("main", Kind.PYTHON)
    return from_stacks([([main, Frame(name, Kind.CPP)], value * MS) for name, value in amounts.items()], CPU_TIME)


def many_stacks(count: int = 200_000, seed: int = 7) -> Tree:
    """`count` distinct stacks of 10 to 30 frames over 20,000 functions; values differ by orders of magnitude, as in real profiles.

    Each stack leaves one of the last 5,000 at a random depth, mostly high up, so that they share callers.
    """
    random = np.random.default_rng(seed)
    functions = 20_000
    lengths = random.integers(10, 31, count)
    keep = (lengths * random.beta(8, 1.2, count)).astype(np.int64).tolist()
    picks = iter(random.integers(1, functions + 1, int(lengths.sum())).tolist())
    other = random.random(count).tolist()
    parent, frame, leaves = [-1], [0], []
    paths: list[list[int]] = []
    for at, length in enumerate(lengths.tolist()):
        path = paths[int(other[at] * len(paths))][: keep[at]] if paths else [0]
        for _ in range(max(1, length - len(path))):
            parent.append(path[-1])
            frame.append(next(picks))
            path = [*path, len(parent) - 1]
        leaves.append(path[-1])
        if len(paths) < 5_000:
            paths.append(path)
        else:
            paths[at % 5_000] = path
    own = np.zeros(len(parent), dtype=np.int64)
    own[np.asarray(leaves)] = (random.pareto(1.1, count) * 5 * MS).astype(np.int64) + 1_000
    kinds = random.choice([Kind.PYTHON, Kind.C, Kind.CPP, Kind.GPU_KERNEL], functions, p=[0.3, 0.2, 0.4, 0.1]).tolist()
    frames = [
        Frame(f"ns{n % 97}::method_{n}", kind, f"src/module_{n % 400}.cpp", n % 900, f"lib{n % 31}.so", f"ns{n % 97}::method_{n}(int, T)")
        for n, kind in enumerate(kinds)
    ]
    return Tree(frame_table(frames), np.asarray(parent, dtype=np.int32), np.asarray(frame, dtype=np.uint32), {"cpu-time": own}, (CPU_TIME,))
