"""Values of `aiflame record`'s options, as a person types them."""

from __future__ import annotations

import pytest

from aiflame.errors import AiflameError
from aiflame.profile.schema.control_schema import GpuSampling
from aiflame.recorder import parse_sampling, parse_size
from aiflame.recorder.options import parse_host_memory, parse_telemetry


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


@pytest.mark.parametrize("text", ["", "on", "31", "-64", "6.4", "2147483649", "9" * 5000])
def test_a_wrong_period_is_refused_with_an_example_of_a_right_one(text: str) -> None:
    with pytest.raises(AiflameError, match="use off, auto, or a period of 32 to 2147483648 cycles"):
        parse_sampling(text)


@pytest.mark.parametrize(
    ("wanted", "text", "every"), [(False, "", 0), (True, "", 524288), (True, "64K", 65536), (True, "1", 1), (True, "1T", 1 << 40)]
)
def test_host_memory_is_sampled_every_so_many_bytes(wanted: bool, text: str, every: int) -> None:
    assert parse_host_memory(wanted, text) == every


@pytest.mark.parametrize(("wanted", "text"), [(False, "64K"), (True, "0"), (True, "2T"), (True, "often")])
def test_a_wrong_distance_between_samples_of_host_memory_is_refused(wanted: bool, text: str) -> None:
    with pytest.raises(AiflameError, match=r"add that|choose 1 byte to 1T|not a size"):
        parse_host_memory(wanted, text)


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("0.0", 0), ("1", 1), ("1.5k", 1536), ("500M", 500 << 20), ("2GiB", 2 << 30), ("1048575T", 1048575 << 40)]
)
def test_a_size_is_a_number_of_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["0.5", "1048576T", "99999999T", "9" * 400])
def test_a_size_that_no_recording_can_have_is_refused(text: str) -> None:
    """Half a byte is no size, and not no limit either."""
    with pytest.raises(AiflameError, match="is out of range for a size: choose 1 byte to a million T"):
        parse_size(text)


def test_an_interval_of_telemetry_has_few_digits() -> None:
    with pytest.raises(AiflameError, match="use off, or an interval"):
        parse_telemetry("9" * 5000)
