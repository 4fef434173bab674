"""A torch program with one fault: `planted_torch.py FAULT SECONDS`. `near-FAULT` does the same work without it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ["TRITON_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()

import torch
from torch import nn

CUDA = torch.device("cuda")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(nn.functional.gelu(self.first(x)))


class Model(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Wide(nn.Module):
    """A layer that computes in float32."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner.float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x.float()).to(x.dtype)  # type: ignore[no-any-return]


def main() -> None:
    fault, seconds = sys.argv[1], float(sys.argv[2])
    near = fault.startswith("near-")
    step = globals()[fault.removeprefix("near-").replace("-", "_")](near)
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        step()
    torch.cuda.synchronize()


def trained(model: nn.Module, x: torch.Tensor, after: Callable[[torch.Tensor], Any] | None = None, **optimizer: bool) -> Callable[[], None]:
    model.to(CUDA)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, **(optimizer or {"fused": True}))

    def step() -> None:
        loss = model(x).float().square().mean()
        loss.backward()
        adam.step()
        adam.zero_grad()
        if after:
            after(loss)

    return step


def launch_bound(near: bool) -> Callable[[], None]:
    if near:
        return trained(Model(2048, 4).bfloat16(), torch.randn(4096, 2048, device=CUDA, dtype=torch.bfloat16))
    return trained(Model(64, 24), torch.randn(32, 64, device=CUDA))


def device_synchronize(near: bool) -> Callable[[], None]:
    model, x = Model(1024, 4).bfloat16().to(CUDA), torch.randn(2048, 1024, device=CUDA, dtype=torch.bfloat16)

    def step() -> None:
        with torch.no_grad():
            y = x
            for layer in model.layers:
                y = layer(y)
                if not near:
                    torch.cuda.synchronize()  # planted
        if near:
            torch.cuda.synchronize()

    if near:
        big = torch.randn(16384, 1024, device=CUDA, dtype=torch.bfloat16)
        return lambda: [model(big) for _ in range(20)] and torch.cuda.synchronize()
    return step


def idle_sync(near: bool) -> Callable[[], None]:
    x = torch.randn(1024, 1024, device=CUDA, dtype=torch.bfloat16)
    seen: list[Any] = []

    def step() -> None:
        for number in range(200):
            y = x @ x
            y = y @ x
            if not near or number == 0:
                seen.append(y[0, 0].item())  # planted

    return step


def pageable_copies(near: bool) -> Callable[[], None]:
    data = [torch.randn(16 << 20) for _ in range(2)]
    data = [one.pin_memory() for one in data] if near else data
    weight = torch.randn(4096, 4096, device=CUDA, dtype=torch.bfloat16)

    def step() -> None:
        for one in data:
            x = one.to(CUDA, non_blocking=True)  # planted
            (x.view(-1, 4096).bfloat16() @ weight).sum()
        torch.cuda.synchronize()

    return step


def copies(near: bool) -> Callable[[], None]:
    """Pinned, and on the stream of the kernels; or one ahead on a stream of its own."""
    data = torch.randn(16 << 20).pin_memory()
    weight = torch.randn(4096, 4096, device=CUDA, dtype=torch.bfloat16)
    side, ahead = torch.cuda.Stream(), [data.to(CUDA)]

    def step() -> None:
        if near:
            torch.cuda.current_stream().wait_stream(side)
            x = ahead.pop()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                ahead.append(data.to(CUDA, non_blocking=True))
            x.record_stream(torch.cuda.current_stream())
        else:
            x = data.to(CUDA, non_blocking=True)  # planted
        y = x.view(-1, 4096).bfloat16()
        for _ in range(8):
            y = y @ weight

    return step


def allocator(near: bool) -> Callable[[], None]:
    return trained(
        Model(1024, 8).bfloat16(),
        torch.randn(8192, 1024, device=CUDA, dtype=torch.bfloat16),
        None if near else lambda loss: torch.cuda.empty_cache(),  # planted
    )


def recompiling(near: bool) -> Callable[[], None]:
    torch._dynamo.config.recompile_limit = 10_000
    torch._dynamo.config.accumulated_recompile_limit = 10_000
    model = Model(256, 4).to(CUDA)
    compiled = torch.compile(model, backend="aot_eager", dynamic=False)
    size = [64]

    def step() -> None:
        with torch.no_grad():
            size[0] += 0 if near else 1
            compiled(torch.randn(size[0], 256, device=CUDA))  # planted

    return step


def specializing(near: bool) -> Callable[[], None]:
    import planted_triton

    return planted_triton.specializing(near)


def autotuning(near: bool) -> Callable[[], None]:
    import planted_triton

    return planted_triton.autotuning(near)


def unfused_optimizer(near: bool) -> Callable[[], None]:
    how = {"fused": True} if near else {"foreach": False}
    return trained(Model(512, 12), torch.randn(256, 512, device=CUDA), **how)


def no_tensor_cores(near: bool) -> Callable[[], None]:
    torch.set_float32_matmul_precision("high" if near else "highest")
    return trained(Model(1024, 4), torch.randn(4096, 1024, device=CUDA))


def double_precision(near: bool) -> Callable[[], None]:
    kind = torch.float32 if near else torch.float64
    torch.set_float32_matmul_precision("high")
    return trained(Model(1024, 4).to(kind), torch.randn(2048, 1024, device=CUDA, dtype=kind))


def layer_precision(near: bool) -> Callable[[], None]:
    torch.set_float32_matmul_precision("highest")
    model = Model(1024, 8).bfloat16()
    if not near:
        model.layers[5] = Wide(model.layers[5])
    return trained(model, torch.randn(4096, 1024, device=CUDA, dtype=torch.bfloat16))


if __name__ == "__main__":
    main()
