"""Traces of torch.profiler of training programs that have one fault each, by construction; and of the same programs without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kineto_trace import US, KinetoTrace

STEPS = 12
SINCE_1970 = 1_700_000_000 * 10**9
MS = 1000 * US
GEMM = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
ADAM = "void at::native::elementwise_kernel<128, 2, at::native::AddcdivFunctor<float> >(int)"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
Step = Callable[[KinetoTrace, int], int]
"""Writes a step that begins at this moment, and gives the end of its last call."""


def trace(step: Step, steps: int = STEPS, out: KinetoTrace | None = None) -> KinetoTrace:
    out = out or KinetoTrace()
    at, spans = 10 * MS, []
    for number in range(steps):
        begin = at
        at = step(out, at)
        out.step(number, begin, at)
        spans.append((begin, at))
    out.python("<module>", 9 * MS, at + MS, line=1)
    out.python("main", 9 * MS + US, at + MS - US, line=5)
    for begin, end in spans:
        out.python("train_step", begin, end, line=20)
    return out


def forward(out: KinetoTrace, at: int, kernels: int, took: int, *, each: int = 20 * US, kernel: str = GEMM) -> tuple[int, int]:
    """Ops one after another that launch a kernel each, `each` apart. Gives the ends of the calls and of the kernels."""
    out.python("forward", at, at + kernels * each, "model.py", 7)
    last = at
    for number in range(kernels):
        begin = at + number * each
        out.call("aten::mm", begin + US, begin + each - US)
        last = out.launch(kernel, begin + 3 * US, took)
    return at + kernels * each, last


def healthy(out: KinetoTrace, at: int) -> int:
    """The device is always busy: kernels take longer than their launches."""
    end, last = forward(out, at, 40, 100 * US)
    return max(end, last - 500 * US)


def launch_bound(out: KinetoTrace, at: int) -> int:
    end, _ = forward(out, at, 200, 4 * US)
    return end


def device_synchronize(out: KinetoTrace, at: int) -> int:
    for _ in range(8):
        end, last = forward(out, at, 5, 100 * US)
        out.python("synchronize", end, last + 100 * US, "torch/cuda/__init__.py", 400)
        out.wait(end + US, last + 5 * US, "cudaDeviceSynchronize")
        at = last + 120 * US
    return at


def item(out: KinetoTrace, at: int) -> int:
    for _ in range(8):
        end, last = forward(out, at, 5, 100 * US)
        out.call("aten::item", end, last + 60 * US)
        out.call("aten::_local_scalar_dense", end + US, last + 50 * US)
        copied = out.copy("DtoH", end + 2 * US, US, 4)
        out.wait(end + 5 * US, copied + 5 * US)
        at = last + 90 * US
    return at


def data(out: KinetoTrace, at: int) -> int:
    wait = 3 * MS
    out.call("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, at + wait, "user_annotation")
    out.python("__next__", at, at + wait, "torch/utils/data/dataloader.py", 700)
    end, last = forward(out, at + wait, 30, 100 * US)
    return max(end, last)


def host(out: KinetoTrace, at: int) -> int:
    out.python("augment", at, at + 3 * MS, line=44)
    end, last = forward(out, at + 3 * MS, 30, 100 * US)
    return max(end, last)


def pageable_copies(out: KinetoTrace, at: int) -> int:
    for _ in range(3):
        out.python("to", at, at + 2 * MS, line=31)
        out.call("aten::copy_", at + US, at + 2 * MS - US)
        out.events.append(_pageable(out, at + 2 * US, 1900 * US))
        out.copy("HtoD", at + 2 * US, 1900 * US, 8 << 20)
        out.events[-2]["dur"] = 1905.0  # the call stays in the driver
        at += 2 * MS
    end, last = forward(out, at, 30, 100 * US)
    return max(end, last)


def _pageable(out: KinetoTrace, begin: int, took: int) -> dict[str, object]:
    return {"ph": "X", "cat": "cpu_op", "name": "aten::to", "pid": out.pid, "tid": 100, "ts": begin / US, "dur": took / US, "args": {}}


def optimizer(out: KinetoTrace, at: int) -> int:
    end, last = forward(out, at, 20, 100 * US)
    end = max(end, last)
    out.call("Optimizer.step#Adam.step", end, end + 200 * 12 * US, "user_annotation")
    out.python("step", end, end + 200 * 12 * US, "torch/optim/adam.py", 200)
    for number in range(200):
        begin = end + number * 12 * US
        out.call("aten::addcdiv_", begin, begin + 10 * US)
        out.launch(ADAM, begin + 3 * US, 2 * US)
    return end + 200 * 12 * US


def communication(out: KinetoTrace, at: int) -> int:
    end, last = forward(out, at, 30, 100 * US)
    out.call("c10d::allreduce_", end, end + 40 * US)
    out.call(
        "record_param_comms", end + US, end + 30 * US, In_msg_nelems=1 << 22, dtype="Float", Group_size=2,
        Collective_name="allreduce", Process_Group_Name="default_pg", Process_Group_Ranks="[0, 1]",
    )  # fmt: skip
    return out.launch(NCCL, end + 5 * US, 2 * MS, after=last - end, stream=20)


def allocator(out: KinetoTrace, at: int) -> int:
    out.python("empty_cache", at, at + 2 * MS, "torch/cuda/memory.py", 200)
    for number in range(4):
        out.call("cudaFree", at + number * 500 * US + US, at + (number + 1) * 500 * US - at // MS % 17 * US, "cuda_runtime")
    end, last = forward(out, at + 2 * MS, 30, 100 * US)
    return max(end, last)


def no_tensor_cores(out: KinetoTrace, at: int) -> int:
    end, last = forward(out, at, 30, 100 * US, kernel="ampere_sgemm_128x128_tn")
    return max(end, last - 500 * US)


def layers(out: KinetoTrace, at: int) -> int:
    """Four layers alike, of which the third multiplies three times as slowly as the others."""
    shapes = [[4096, 4096], [4096, 4096]]
    out.call("nn.Module: Model_0", at, at + 400 * US, "python_function")
    for number in range(4):
        out.call(f"nn.Module: Block_{number}", at, at + 100 * US, "python_function")
        for one in range(2):
            begin = at + 10 * US + one * 40 * US
            out.call(f"nn.Module: Linear_{2 * number + one}", begin - US, begin + 31 * US, "python_function")
            out.op("aten::mm", begin, begin + 30 * US, shapes, "c10::BFloat16")
            out.launch(GEMM, begin + 3 * US, 510 * US if number == 2 else 170 * US)
        at += 100 * US
    return at + 1800 * US


def ranks(folder: Path, kernels: list[int], waits: list[int]) -> Path:
    """The folder with the traces of a job's ranks, whose steps end with an all-reduce of all. `kernels`: the time of each kernel of each
    rank; `waits`: the time of other work of each rank, first in every step."""
    folder.mkdir()
    ready = [wait + 3 * US + 5 * US + 30 * took for took, wait in zip(kernels, waits, strict=True)]
    for rank, (took, wait) in enumerate(zip(kernels, waits, strict=True)):
        out = trace(_of_rank(took, wait, max(ready), len(kernels)), out=KinetoTrace(pid=100 + rank))
        out.members |= {
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(kernels)},
            "baseTimeNanoseconds": SINCE_1970,
        }
        out.write(folder / f"rank{rank}.pt.trace.json.gz")
    return folder


def _of_rank(took: int, wait: int, latest: int, size: int) -> Step:
    def step(out: KinetoTrace, at: int) -> int:
        if wait:
            out.python("slow_batch", at, at + wait, line=44)
        end, last = forward(out, at + wait, 30, took)
        out.call("c10d::allreduce_", end, end + 40 * US)
        out.call(
            "record_param_comms", end + US, end + 30 * US, In_msg_nelems=1 << 22, dtype="Float", Group_size=size,
            Collective_name="allreduce", Process_Group_Name="default_pg", Process_Group_Ranks=str(list(range(size))),
        )  # fmt: skip
        begin = max(last, end + 10 * US)
        return out.launch(NCCL, end + 5 * US, at + latest + 400 * US - begin, after=begin - end - 5 * US, stream=20) + 20 * US

    return step
