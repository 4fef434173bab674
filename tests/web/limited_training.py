"""A training whose kernels come near to the limits of their device by shares that are known."""

from __future__ import annotations

from stories import Counted

STEPS = 8
GEMM, ADD, NORM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize256x128x64", "elementwise_add", "layer_norm"


def training(*, counters: bool = True) -> Counted:
    """Each step: 1 ms at 75% of the tensor cores' rate and 25% of the bandwidth, 400 µs at 90% of it, 100 µs at 15%."""
    story = Counted()
    for step in range(STEPS):
        begin = 4000.0 * (step + 1)
        for name, part, took, memory, tensor in (
            (GEMM, "mlp", 1000, 0.25, 0.75),
            (ADD, "mlp", 400, 0.9, 0.0),
            (NORM, "norm", 100, 0.15, 0.0),
        ):
            story.layer_work(begin - 10, begin, begin + took, "model", f"model/{part}", name=name)
            if counters:
                story.count(memory=memory, tensor=tensor)
            begin += took
        story.during("optimizer", begin - 5, begin - 4)
    return story
