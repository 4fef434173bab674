"""Values of `aiflame record`'s options, as a person types them."""

from __future__ import annotations

import pytest

from aiflame.errors import AiflameError
from aiflame.profile.schema.control_schema import GpuSampling
from aiflame.recorder import parse_sampling


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("off", GpuSampling.OFF),
        ("auto", GpuSampling.AUTO),
        ("AUTO", GpuSampling.AUTO),
        ("32", 5),
        ("64", 6),
        ("100", 7),
        ("8388608", 23),
        ("2147483648", 31),
    ],
)
def test_a_period_of_gpu_sampling_is_the_nearest_power_of_two(text: str, asked: int) -> None:
    assert parse_sampling(text) == asked


@pytest.mark.parametrize("text", ["", "on", "31", "-64", "6.4", "2147483649"])
def test_a_wrong_period_is_refused_with_an_example_of_a_right_one(text: str) -> None:
    with pytest.raises(AiflameError, match="use off, auto, or a period of 32 to 2147483648 cycles"):
        parse_sampling(text)
