"""Bodies that arrived, parsed by OpenTelemetry's official classes and by our reader of pprof: every sample is in them, and no secret."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from calling import run_aiflame
from exported_profiles import META, listed, training
from protobuf_fields import one, several
from receiver import Receiver

import aiflame
from aiflame.api import Profile
from aiflame.exchange.readers.door import import_to
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import JobRank, Kept
from aiflame.push.destination import Destination
from aiflame.push.formats import body_of

METRICS = ("cpu-time", "wall-time", "gpu-time", "gpu-stalls", "bytes")
SECRETS = ("--password=hunter2", "s3cr3t-argument", "/home/me/private/train.py")


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return with_meta(
        tmp_path_factory.mktemp("pushed"), command=("/opt/private-python/bin/python3", SECRETS[2], *SECRETS[:2]), options={"cpu_rate": 199}
    )


def with_meta(folder: Path, **changes: object) -> Profile:
    store = training(folder)
    replace(META, **changes).put(Folder.open(store.path))  # type: ignore[arg-type]
    return aiflame.open(store.path)


def own(profile: Profile, metric: str) -> dict[str, int]:
    return {name: value for name, (value, _, _) in listed(profile.store, metric, "function").items() if value}


def test_a_collector_gets_every_sample(profile: Profile, receiver: Receiver) -> None:
    service = pytest.importorskip(
        "opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2", reason="opentelemetry-proto is not installed"
    )
    assert run_aiflame("push", str(profile.path), receiver.url).status == 0
    (data,) = receiver.kept.values()
    ((path, headers),) = receiver.heard
    assert (path, headers["Content-Type"], headers["Content-Encoding"]) == ("/v1development/profiles", "application/x-protobuf", "gzip")
    request = service.ExportProfilesServiceRequest()
    request.ParseFromString(data)
    dictionary = request.dictionary
    texts = dictionary.string_table
    (resource,) = request.resource_profiles
    (scope,) = resource.scope_profiles
    got: dict[str, Counter[str]] = {}
    for of_metric in scope.profiles:
        values: Counter[str] = Counter()
        for sample in of_metric.samples:
            place = dictionary.location_table[dictionary.stack_table[sample.stack_index].location_indices[0]]
            values[texts[dictionary.function_table[place.lines[0].function_index].name_strindex]] += sum(sample.values)
        got[texts[of_metric.sample_type.type_strindex]] = values
    assert {metric: got[metric] for metric in METRICS} == {metric: own(profile, metric) for metric in METRICS}
    facts = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert {name: facts[name] for name in ("service.name", "host.name", "process.executable.name", "aiflame.device")} == {
        "service.name": "train",
        "host.name": "box",
        "process.executable.name": "train.py",
        "aiflame.device": "NVIDIA H200",
    }
    labels = {
        texts[dictionary.attribute_table[at].key_strindex]
        for one in scope.profiles
        for sample in one.samples
        for at in sample.attribute_indices
    }
    assert {"process.title", "aiflame.layer", "aiflame.phase"} <= labels
    assert "aiflame.step" not in labels, "each step would be a series of its own"
    ids = [one.profile_id for one in scope.profiles]
    assert len(set(ids)) == len(ids)
    assert not any(secret.encode() in data for secret in (*SECRETS, "private"))


def test_pyroscope_gets_every_sample(profile: Profile, receiver: Receiver, tmp_path: Path) -> None:
    said = run_aiflame("push", str(profile.path), f"{receiver.url}/pyroscope/ingest?tenant=a", "--push-service", "my {trainer}")
    assert said.status == 0, said.err
    (data,) = receiver.kept.values()
    ((path, headers),) = receiver.heard
    asked = parse_qs(urlsplit(path).query, strict_parsing=True)
    assert urlsplit(path).path == "/pyroscope/ingest"
    assert asked == {
        "tenant": ["a"],
        "name": ["my_trainer{host=box,device=NVIDIA_H200}"],
        "format": ["pprof"],
        "spyName": ["aiflame"],
        "from": ["1700000000"],
        "until": ["1700000005"],
    }
    assert (headers["Content-Type"], "Content-Encoding" in headers) == ("application/octet-stream", False)
    message = gzip.decompress(data)
    texts = several(message, 6)
    (period,) = several(message, 11)
    assert (texts[int(one(period, 1))], texts[int(one(period, 2))], one(message, 12)) == (b"cpu-time", b"nanoseconds", 10**9 // 199)
    (tmp_path / "got.pb.gz").write_bytes(data)
    import_to(tmp_path / "got.pb.gz", tmp_path / "got.aiflame")
    got = aiflame.open(tmp_path / "got.aiflame")
    names = {"cpu-time": "cpu-time", "wall-time": "wall-time", "gpu-time": "gpu-time-ns", "bytes": "bytes-bytes"}
    for metric, called in names.items():
        assert own(got, called) == own(profile, metric)
    assert not any(secret.encode() in message for secret in (*SECRETS, "private"))


def test_the_window_of_a_flight_recorder_has_its_own_time_and_cause(tmp_path: Path) -> None:
    kept = Kept("slow step 412", 3_000_000_000, 4_500_000_000)
    profile = with_meta(tmp_path, kept=kept, job_rank=JobRank(3, 8))
    asked = parse_qs(body_of(profile, Destination.of("http://localhost/ingest")).query)
    assert (asked["from"], asked["until"]) == (["1700000003"], ["1700000005"])
    assert asked["name"] == ["train{host=box,device=NVIDIA_H200,rank=3}"]
    data = gzip.decompress(body_of(profile, Destination.of("http://localhost")).data)
    assert b"slow step 412" in data
    assert b"aiflame.rank" in data


def test_the_same_profile_is_the_same_body_and_another_is_not(profile: Profile, tmp_path: Path) -> None:
    otlp = Destination.of("http://localhost")
    assert body_of(profile, otlp).id == body_of(aiflame.open(profile.path), otlp).id
    assert len({body_of(with_meta(tmp_path / name, id=name), otlp).id for name in ("a" * 32, "b" * 32)}) == 2
