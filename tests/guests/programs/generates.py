"""A small Llama of transformers with random weights generates from four prompts of 1,024 tokens. Prints the bytes of its parameters, and of
the keys and values of all tokens at the end."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS, WIDTH, PROMPTS, TOKENS, NEW = 4, 256, 4, 1024, 16

torch.set_num_threads(1)
config = LlamaConfig(
    vocab_size=1000,
    hidden_size=WIDTH,
    intermediate_size=512,
    num_hidden_layers=LAYERS,
    num_attention_heads=4,
    num_key_value_heads=4,
    max_position_embeddings=2048,
)
model = LlamaForCausalLM(config).eval()
prompts = torch.randint(0, 1000, (PROMPTS, TOKENS))
with torch.no_grad():
    for _ in range(2):
        model.generate(prompts, max_new_tokens=NEW, do_sample=False, use_cache=True, pad_token_id=0)
print(sum(one.numel() * 4 for one in model.parameters()), 4 * LAYERS * 2 * PROMPTS * (TOKENS + NEW) * WIDTH)
