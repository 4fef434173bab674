"""The operations of a call as torch.profiler counts them (`with_flops`), and for ops that it does not count those of our model."""

from __future__ import annotations

from aiflame.exchange.readers.op_work import MOST, Call, convolution, op_work

_PER_ELEMENT = ("aten::add", "aten::mul")


def flops_of(name: str, call: Call) -> int:
    """0 where neither knows the op, or the call's shapes are not known."""
    try:
        if name in _PER_ELEMENT:  # torch takes the first tensor's size, also where the other one is larger
            return min(call.tensor(0).count, MOST)
        if name == "aten::conv2d":
            return min(convolution(call).flops, MOST) if len(call.tensor(1).shape) == 4 else 0
    except (LookupError, ValueError, TypeError, ZeroDivisionError):
        return 0
    work = op_work(name, call)
    return work.flops if work is not None else 0
