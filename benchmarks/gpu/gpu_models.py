"""The models of `gpu_workloads.py`: a transformer to train, and a Llama-like decoder."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS = 1000


@dataclass(frozen=True, slots=True)
class Size:
    layers: int
    width: int
    tokens: int
    batch: int
    heads: int = 8


LAUNCH_BOUND = Size(layers=6, width=256, tokens=64, batch=4)
GPU_BOUND = Size(layers=8, width=2048, tokens=1024, batch=8)
DECODER = Size(layers=16, width=512, tokens=64, batch=1)
SMALL = Size(layers=2, width=64, tokens=16, batch=2)


class Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        split = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.head = nn.Linear(size.width, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class RootMeanSquareNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Rotary(nn.Module):
    """Turns pairs of columns by an angle that grows with the position."""

    def __init__(self, width: int, tokens: int) -> None:
        super().__init__()
        speed = 10_000 ** (-torch.arange(0, width, 2).float() / width)
        angle = torch.outer(torch.arange(tokens).float(), speed).repeat(1, 2)
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        low, high = x.chunk(2, dim=-1)
        return x * self.cosine.index_select(0, position) + torch.cat((-high, low), dim=-1) * self.sine.index_select(0, position)


class Cache(nn.Module):
    """Keys and values of the tokens so far."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        shape = (size.batch, size.heads, size.tokens, size.width // size.heads)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, key: Tensor, value: Tensor, position: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, value)
        return self.keys[:, :, :tokens], self.values[:, :, :tokens]


class Attention(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.rotary = Rotary(width // size.heads, size.tokens)
        self.cache = Cache(size)

    def forward(self, x: Tensor, position: Tensor, tokens: int) -> Tensor:
        batch, _, width = x.shape
        query, key, value = (
            projection(x).view(batch, 1, self.heads, -1).transpose(1, 2) for projection in (self.query, self.key, self.value)
        )
        keys, values = self.cache(self.rotary(key, position), value, position, tokens)
        mixed = functional.scaled_dot_product_attention(self.rotary(query, position), keys, values)
        return self.out(mixed.transpose(1, 2).reshape(batch, 1, width))


class GatedFeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)
        self.activation = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))


class DecoderLayer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norm1, self.norm2 = RootMeanSquareNorm(size.width), RootMeanSquareNorm(size.width)
        self.attention, self.feed_forward = Attention(size), GatedFeedForward(size.width)

    def forward(self, x: Tensor, position: Tensor, tokens: int) -> Tensor:
        x = x + self.attention(self.norm1(x), position, tokens)
        return x + self.feed_forward(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, size.width)
        self.layers = nn.ModuleList(DecoderLayer(size) for _ in range(size.layers))
        self.norm = RootMeanSquareNorm(size.width)

    def forward(self, words: Tensor, position: Tensor, tokens: int) -> Tensor:
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x, position, tokens)
        return self.norm(x)


class LanguageModel(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.model = Decoder(size)
        self.head = nn.Linear(size.width, WORDS, bias=False)

    def forward(self, words: Tensor, position: Tensor, tokens: int) -> Tensor:
        return self.head(self.model(words, position, tokens))
