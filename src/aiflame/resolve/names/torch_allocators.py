"""The functions of torch in which every allocation of a tensor ends: they say nothing about who allocated it."""

from __future__ import annotations

ALLOCATES = (
    r"CUDACachingAllocator|CachingDeviceAllocator"
    r"|^(at::TensorBase )?at::((detail|native|_ops)::)?_?empty\w*"
    r"|^at::(\(anonymous namespace\)::){0,2}(wrapper_\w+_empty\w*|create_out\b|\w+::set_output_\w+)"
    r"|^at::TensorIteratorBase::(fast_set_up|build\w*|allocate_or_resize_outputs)\b"
)
"""A pattern that finds their names, with arguments or without."""
