"""OpenTelemetry's profiles, parsed by the official classes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from calling import run_aiflame
from exported_profiles import META, listed, training

from aiflame.profile.tables.store import Profile

profiles_pb2 = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2", reason="opentelemetry-proto is not installed")
METRICS = ("cpu-time", "wall-time", "gpu-time", "gpu-stalls", "bytes")


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return training(tmp_path_factory.mktemp("otlp"))


@pytest.fixture(scope="module")
def data(profile: Profile):  # type: ignore[no-untyped-def]
    file = Path(profile.path.with_name("run.otlp"))
    assert run_aiflame("export", str(profile.path), "--to", "otlp", "--raw", "-o", str(file)).status == 0
    parsed = profiles_pb2.ProfilesData()
    parsed.ParseFromString(file.read_bytes())
    return parsed


def names(data, stack: int) -> list[str]:  # type: ignore[no-untyped-def]
    dictionary = data.dictionary
    lines = [dictionary.location_table[at].lines[0] for at in dictionary.stack_table[stack].location_indices]
    return [dictionary.string_table[dictionary.function_table[line.function_index].name_strindex] for line in lines]


def test_every_total_and_every_function_is_equal(profile: Profile, data) -> None:  # type: ignore[no-untyped-def]
    (resource,) = data.resource_profiles
    (scope,) = resource.scope_profiles
    dictionary = data.dictionary.string_table
    of_name = {dictionary[one.sample_type.type_strindex]: one for one in scope.profiles}
    assert dictionary[scope.profiles[0].sample_type.type_strindex] == "gpu-time"
    for metric in METRICS:
        values: Counter[str] = Counter()
        for sample in of_name[metric].samples:
            values[names(data, sample.stack_index)[0]] += sum(sample.values)
        assert values == {name: own for name, (own, _, _) in listed(profile, metric, "function").items() if own}
    units = {name: dictionary[one.sample_type.unit_strindex] for name, one in of_name.items()}
    assert (units["gpu-time"], units["bytes"], units["gpu-stalls"]) == ("ns", "By", "{sample}")


def test_the_dictionary_begins_with_empty_rows(data) -> None:  # type: ignore[no-untyped-def]
    dictionary = data.dictionary
    assert dictionary.string_table[0] == ""
    tables = (
        dictionary.mapping_table,
        dictionary.location_table,
        dictionary.function_table,
        dictionary.link_table,
        dictionary.attribute_table,
        dictionary.stack_table,
    )
    assert all(table[0].ByteSize() == 0 for table in tables)
    assert len(set(dictionary.string_table)) == len(dictionary.string_table)


def test_samples_have_attributes_and_the_resource_has_facts(data) -> None:  # type: ignore[no-untyped-def]
    dictionary = data.dictionary
    (resource,) = data.resource_profiles
    facts = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert facts["host.name"] == "box" and facts["process.command_line"] == "python train.py" and facts["aiflame.notes"] == "a note"
    (gpu,) = (one for one in resource.scope_profiles[0].profiles if dictionary.string_table[one.sample_type.type_strindex] == "gpu-time")
    assert gpu.time_unix_nano == META.started.realtime_ns and gpu.duration_nano == 5_000_000_000 and len(gpu.profile_id) == 16
    of_layers: Counter[tuple[int, str]] = Counter()
    for sample in gpu.samples:
        said = [dictionary.attribute_table[at] for at in sample.attribute_indices]
        labels = {dictionary.string_table[one.key_strindex]: one.value for one in said}
        if "aiflame.layer" in labels and names(data, sample.stack_index)[0] == "sgemm":
            of_layers[labels["aiflame.step"].int_value, labels["aiflame.layer"].string_value] += sum(sample.values)
    assert of_layers == {(step, "layers.0.attn"): 30_000 + 1000 * step for step in range(4)}
