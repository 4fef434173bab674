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
"""Writes what a step does from this moment on, and gives the moment at which its last call ends."""


def trace(step: Step, steps: int = STEPS, made: KinetoTrace | None = None) -> KinetoTrace:
    made = made or KinetoTrace()
    at, spans = 10 * MS, []
    for number in range(steps):
        begin = at
        at = step(made, at)
        made.step(number, begin, at)
        spans.append((begin, at))
    made.python("<module>", 9 * MS, at + MS, line=1)
    made.python("main", 9 * MS + US, at + MS - US, line=5)
    for begin, end in spans:
        made.python("train_step", begin, end, line=20)
    return made


def forward(made: KinetoTrace, at: int, kernels: int, took: int, *, each: int = 20 * US, kernel: str = GEMM) -> tuple[int, int]:
    """Ops one after another that launch a kernel each, `each` apart. Gives the ends of the calls and of the kernels."""
    made.python("forward", at, at + kernels * each, "model.py", 7)
    done = at
    for number in range(kernels):
        begin = at + number * each
        made.call("aten::mm", begin + US, begin + each - US)
        done = made.launch(kernel, begin + 3 * US, took)
    return at + kernels * each, done


def healthy(made: KinetoTrace, at: int) -> int:
    """The device is always busy: kernels take longer than their launches."""
    end, done = forward(made, at, 40, 100 * US)
    return max(end, done - 500 * US)


def launch_bound(made: KinetoTrace, at: int) -> int:
    end, _ = forward(made, at, 200, 4 * US)
    return end


def device_synchronize(made: KinetoTrace, at: int) -> int:
    for _ in range(8):
        end, done = forward(made, at, 5, 100 * US)
        made.python("synchronize", end, done + 100 * US, "torch/cuda/__init__.py", 400)
        made.wait(end + US, done + 5 * US, "cudaDeviceSynchronize")
        at = done + 120 * US
    return at


def item(made: KinetoTrace, at: int) -> int:
    for _ in range(8):
        end, done = forward(made, at, 5, 100 * US)
        made.call("aten::item", end, done + 60 * US)
        made.call("aten::_local_scalar_dense", end + US, done + 50 * US)
        copied = made.copy("DtoH", end + 2 * US, US, 4)
        made.wait(end + 5 * US, copied + 5 * US)
        at = done + 90 * US
    return at


def data(made: KinetoTrace, at: int) -> int:
    wait = 3 * MS
    made.call("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, at + wait, "user_annotation")
    made.python("__next__", at, at + wait, "torch/utils/data/dataloader.py", 700)
    end, done = forward(made, at + wait, 30, 100 * US)
    return max(end, done)


def host(made: KinetoTrace, at: int) -> int:
    made.python("augment", at, at + 3 * MS, line=44)
    end, done = forward(made, at + 3 * MS, 30, 100 * US)
    return max(end, done)


def pageable_copies(made: KinetoTrace, at: int) -> int:
    for _ in range(3):
        made.python("to", at, at + 2 * MS, line=31)
        made.call("aten::copy_", at + US, at + 2 * MS - US)
        made.events.append(_pageable(made, at + 2 * US, 1900 * US))
        made.copy("HtoD", at + 2 * US, 1900 * US, 8 << 20)
        made.events[-2]["dur"] = 1905.0  # the call stays in the driver
        at += 2 * MS
    end, done = forward(made, at, 30, 100 * US)
    return max(end, done)


def _pageable(made: KinetoTrace, begin: int, took: int) -> dict[str, object]:
    return {"ph": "X", "cat": "cpu_op", "name": "aten::to", "pid": made.pid, "tid": 100, "ts": begin / US, "dur": took / US, "args": {}}


def optimizer(made: KinetoTrace, at: int) -> int:
    end, done = forward(made, at, 20, 100 * US)
    end = max(end, done)
    made.call("Optimizer.step#Adam.step", end, end + 200 * 12 * US, "user_annotation")
    made.python("step", end, end + 200 * 12 * US, "torch/optim/adam.py", 200)
    for number in range(200):
        begin = end + number * 12 * US
        made.call("aten::addcdiv_", begin, begin + 10 * US)
        made.launch(ADAM, begin + 3 * US, 2 * US)
    return end + 200 * 12 * US


def communication(made: KinetoTrace, at: int) -> int:
    end, done = forward(made, at, 30, 100 * US)
    made.call("c10d::allreduce_", end, end + 40 * US)
    made.call(
        "record_param_comms", end + US, end + 30 * US, In_msg_nelems=1 << 22, dtype="Float", Group_size=2,
        Collective_name="allreduce", Process_Group_Name="default_pg", Process_Group_Ranks="[0, 1]",
    )  # fmt: skip
    return made.launch(NCCL, end + 5 * US, 2 * MS, after=done - end, stream=20)


def allocator(made: KinetoTrace, at: int) -> int:
    made.python("empty_cache", at, at + 2 * MS, "torch/cuda/memory.py", 200)
    for number in range(4):
        made.call("cudaFree", at + number * 500 * US + US, at + (number + 1) * 500 * US - at // MS % 17 * US, "cuda_runtime")
    end, done = forward(made, at + 2 * MS, 30, 100 * US)
    return max(end, done)


def no_tensor_cores(made: KinetoTrace, at: int) -> int:
    end, done = forward(made, at, 30, 100 * US, kernel="ampere_sgemm_128x128_tn")
    return max(end, done - 500 * US)


def layers(made: KinetoTrace, at: int) -> int:
    """Four layers alike, of which the third multiplies three times as slowly as the others."""
    shapes = [[4096, 4096], [4096, 4096]]
    made.call("nn.Module: Model_0", at, at + 400 * US, "python_function")
    for number in range(4):
        made.call(f"nn.Module: Block_{number}", at, at + 100 * US, "python_function")
        for one in range(2):
            begin = at + 10 * US + one * 40 * US
            made.call(f"nn.Module: Linear_{2 * number + one}", begin - US, begin + 31 * US, "python_function")
            made.op("aten::mm", begin, begin + 30 * US, shapes, "c10::BFloat16")
            made.launch(GEMM, begin + 3 * US, 510 * US if number == 2 else 170 * US)
        at += 100 * US
    return at + 1800 * US


def ranks(folder: Path, kernels: list[int], waits: list[int]) -> Path:
    """The folder with the traces of a job's ranks, whose steps end with an all-reduce of all. `kernels`: the time of each kernel of each
    rank; `waits`: what each rank does in every step before it begins."""
    folder.mkdir()
    ready = [wait + 3 * US + 5 * US + 30 * took for took, wait in zip(kernels, waits, strict=True)]
    for rank, (took, wait) in enumerate(zip(kernels, waits, strict=True)):
        made = trace(_of_rank(took, wait, max(ready), len(kernels)), made=KinetoTrace(pid=100 + rank))
        made.members |= {
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(kernels)},
            "baseTimeNanoseconds": SINCE_1970,
        }
        made.write(folder / f"rank{rank}.pt.trace.json.gz")
    return folder


def _of_rank(took: int, wait: int, last: int, size: int) -> Step:
    def step(made: KinetoTrace, at: int) -> int:
        if wait:
            made.python("slow_batch", at, at + wait, line=44)
        end, done = forward(made, at + wait, 30, took)
        made.call("c10d::allreduce_", end, end + 40 * US)
        made.call(
            "record_param_comms", end + US, end + 30 * US, In_msg_nelems=1 << 22, dtype="Float", Group_size=size,
            Collective_name="allreduce", Process_Group_Name="default_pg", Process_Group_Ranks=str(list(range(size))),
        )  # fmt: skip
        begin = max(done, end + 10 * US)
        return made.launch(NCCL, end + 5 * US, at + last + 400 * US - begin, after=begin - end - 5 * US, stream=20) + 20 * US

    return step
