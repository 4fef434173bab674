"""Trains a tiny transformer on the CPU. Prints, as JSON, facts for the test: losses, names of its modules, and when each step began.

torch_training.py [--steps N] [--threads N] [--batch N] [--checkpoint reentrant|not] [--compile]
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint


class Attention(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        query, key, content = self.qkv(value).chunk(3, dim=-1)
        return self.out(torch.nn.functional.scaled_dot_product_attention(query, key, content, is_causal=True))


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(width)
        self.attn = Attention(width)
        self.norm2 = torch.nn.LayerNorm(width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        value = value + self.attn(self.norm1(value))
        return value + self.mlp(self.norm2(value))


class Transformer(torch.nn.Module):
    def __init__(self, words: int, width: int, depth: int, checkpointed: str) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(words, width)
        self.layers = torch.nn.ModuleList(Block(width) for _ in range(depth))
        self.head = torch.nn.Linear(width, words)
        self.checkpointed = checkpointed

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        value = self.embed(tokens)
        for layer in self.layers:
            value = checkpoint(layer, value, use_reentrant=self.checkpointed == "reentrant") if self.checkpointed else layer(value)
        return self.head(value)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--compile", action="store_true")
    wanted = parser.parse_args()
    torch.set_num_threads(wanted.threads)
    torch.manual_seed(1)
    words, length, batch = 256, 128, wanted.batch
    model = Transformer(words, 192, 3, wanted.checkpoint)
    called: Any = torch.compile(model, backend="aot_eager") if wanted.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.randint(0, words, (wanted.steps * batch, length + 1))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(text), batch_size=batch)
    losses, begins = [], []
    for (tokens,) in loader:
        begins.append(time.monotonic_ns())
        logits = called(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    names = {name: type(module).__name__ for name, module in model.named_modules()}
    print(json.dumps({"losses": losses, "steps_ns": begins, "modules": names}))


if __name__ == "__main__":
    main()
