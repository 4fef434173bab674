"""Trains a small block of a norm and an MLP under torch.compile, with two batch sizes, and prints the results.

The first argument is the CPU time, in seconds, to go on for once all is compiled.
"""

import hashlib
import json
import sys
import time

import torch
from torch._dynamo.utils import counters
from torch.nn import functional


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        wide = functional.gelu(self.up(normed))
        return x + self.down(wide)


class Model(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Block(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.relu().mean()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = Model(128)
    compiled = torch.compile(model)
    batches = [torch.randn(rows, 128) for rows in (256, 384)]
    digest = hashlib.sha256()
    for batch in batches:
        loss = compiled(batch)
        loss.backward()
        digest.update(loss.detach().numpy().tobytes())
    for parameter in model.parameters():
        digest.update(parameter.grad.numpy().tobytes())
    end = time.process_time() + float(sys.argv[1])
    while time.process_time() < end:
        compiled(batches[1]).backward()
    print(
        json.dumps(
            {
                "results": digest.hexdigest(),
                "graphs": counters["stats"]["unique_graphs"],
                "hits": sum(count for name, count in counters["aot_autograd"].items() if name == "autograd_cache_hit"),
                "misses": sum(count for name, count in counters["aot_autograd"].items() if name == "autograd_cache_miss"),
            }
        )
    )


if __name__ == "__main__":
    main()
