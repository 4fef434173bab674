"""Trains a small Llama-style language model on made-up text: no marker, hook or import of aiflame is in this program.

    aiflame record -- python train_llama.py                  on the GPU if there is one, else on the CPU
    aiflame record -- torchrun --nproc-per-node 2 train_llama.py      with DistributedDataParallel, a process a GPU (or CPU)
    aiflame flame --by step

`--compile` trains the compiled model.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


@dataclass(frozen=True)
class Config:
    words: int = 1000
    layers: int = 4
    width: int = 256
    heads: int = 4
    tokens: int = 128


class Norm(nn.Module):
    """Divides by the root of the mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Rotary(nn.Module):
    """Turns pairs of columns by an angle that grows with the position."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, width: int, tokens: int) -> None:
        super().__init__()
        speed = 10_000 ** (-torch.arange(0, width, 2).float() / width)
        angle = torch.outer(torch.arange(tokens).float(), speed).repeat(1, 2)
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())

    def forward(self, x: Tensor) -> Tensor:
        low, high = x.chunk(2, dim=-1)
        return x * self.cosine.to(x.dtype) + torch.cat((-high, low), dim=-1) * self.sine.to(x.dtype)


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)
        self.rotary = Rotary(config.width // config.heads, config.tokens)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        query, key, value = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(self.rotary(query), self.rotary(key), value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class FeedForward(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate = nn.Linear(config.width, 3 * config.width, bias=False)
        self.up = nn.Linear(config.width, 3 * config.width, bias=False)
        self.down = nn.Linear(3 * config.width, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1, self.attn = Norm(config.width), Attention(config)
        self.norm2, self.mlp = Norm(config.width), FeedForward(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.words, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = Norm(config.width)
        self.head = nn.Linear(config.width, config.words, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class MadeUpText(Dataset[Tensor]):
    """Sentences in which each word follows from the one before it, mostly."""

    def __init__(self, config: Config, sentences: int) -> None:
        self.config = config
        self.sentences = sentences

    def __len__(self) -> int:
        return self.sentences

    def __getitem__(self, index: int) -> Tensor:
        chance = torch.Generator().manual_seed(index)
        jumps = torch.randint(1, 8, (self.config.tokens + 1,), generator=chance)
        return jumps.cumsum(0) % self.config.words


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--layers", type=int, default=Config.layers)
    parser.add_argument("--width", type=int, default=Config.width)
    parser.add_argument("--tokens", type=int, default=Config.tokens)
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


@dataclass(slots=True)
class Training:
    """The parts of a training step."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: DataLoader[Tensor]
    device: torch.device


def prepare(options: argparse.Namespace) -> Training:
    torch.manual_seed(0)
    distributed = "RANK" in os.environ
    device = torch.device(options.device)
    if distributed:
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
    config = Config(layers=options.layers, width=options.width, tokens=options.tokens)
    model: nn.Module = Llama(config).to(device, torch.bfloat16 if device.type == "cuda" else torch.float32)
    if options.compile:
        model.compile()
    if distributed:
        model = DistributedDataParallel(model)
    text = MadeUpText(config, options.steps * options.batch * (torch.distributed.get_world_size() if distributed else 1))
    batches = DataLoader(text, options.batch, sampler=DistributedSampler(text, shuffle=False) if distributed else None)
    return Training(model, torch.optim.AdamW(model.parameters(), lr=3e-4), batches, device)


def loss_of(training: Training, words: Tensor) -> Tensor:
    words = words.to(training.device)
    logits = training.model(words[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1).float(), words[:, 1:].flatten())


def train(training: Training) -> float:
    loss = torch.zeros(())
    for words in training.batches:
        loss = loss_of(training, words)
        loss.backward()
        nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        training.optimizer.step()
        training.optimizer.zero_grad()
    return loss.item()


def main() -> None:
    options = arguments()
    training = prepare(options)
    began = time.perf_counter()
    loss = train(training)
    print(f"{options.steps} steps in {time.perf_counter() - began:.1f} s, loss {loss:.3f}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
