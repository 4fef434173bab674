"""Another profiler works inside the program, and gives the program its own results: `other_profiler.py torch|proton`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

PRODUCTS = 20


def before(x: torch.Tensor) -> None:
    multiply(x)


def after(x: torch.Tensor) -> None:
    multiply(x)


def multiply(x: torch.Tensor) -> None:
    for _ in range(PRODUCTS):
        torch.mm(x, x)
    torch.cuda.synchronize()


def with_torch_profiler(x: torch.Tensor, folder: Path) -> bool:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        multiply(x)
    profiler.export_chrome_trace(str(folder / "trace.json"))
    return any(event.device_time_total > 0 for event in profiler.key_averages())


def with_proton(x: torch.Tensor, folder: Path) -> bool:
    import triton.profiler as proton

    session = proton.start(str(folder / "proton"), context="shadow")
    with proton.scope("products"):
        multiply(x)
    proton.finalize()
    return session is not None and "products" in (folder / "proton.hatchet").read_text()


def main() -> None:
    x = torch.ones(512, 512, device="cuda")
    before(x)
    profiled = {"torch": with_torch_profiler, "proton": with_proton}[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        print("the other profiler saw kernels:", profiled(x, Path(folder)))
    after(x)
    print("sum", torch.mm(x, x).sum().item())


if __name__ == "__main__":
    main()
