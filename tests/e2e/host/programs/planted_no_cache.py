"""`planted_no_cache.py with|without`: transformers' `generate` of a small Llama with random weights, with its cache or without."""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_num_threads(1)
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=500,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=4,
    pad_token_id=0,
    eos_token_id=None,
)
model = LlamaForCausalLM(config).eval()
prompt = torch.randint(1, 500, (4, 8))
model.generate(prompt, max_new_tokens=120, do_sample=False, use_cache=sys.argv[1] == "with")
