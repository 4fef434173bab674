"""pprof's profiles, made here with an encoder of their own, and real ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_protobuf import number, sized, varint
from trees import paths

import aiflame
from aiflame.api import Profile
from aiflame.attribute.trees.build import metrics
from aiflame.errors import AiflameError
from aiflame.profile.schema.kinds import Kind

FOLDER = Path(__file__).parents[3] / "data" / "traces" / "pprof"
MORE = Path(os.environ.get("AIFLAME_TRACES", FOLDER), "pprof")


class Made:
    def __init__(self, kinds: Sequence[tuple[str, str]], default: str = "") -> None:
        self.texts = [""]
        self.data = b"".join(sized(1, number(1, self.text(kind)) + number(2, self.text(unit))) for kind, unit in kinds)
        self.data += number(14, self.text(default)) if default else b""

    def text(self, of: str) -> int:
        if of not in self.texts:
            self.texts.append(of)
        return self.texts.index(of)

    def function(self, at: int, name: str, file: str = "", start: int = 0) -> None:
        self.data += sized(5, number(1, at) + number(2, self.text(name)) + number(4, self.text(file)) + number(5, start))

    def location(self, at: int, *lines: tuple[int, int], mapping: int = 0, address: int = 0) -> None:
        own = b"".join(sized(4, number(1, function) + number(2, line)) for function, line in lines)
        self.data += sized(4, number(1, at) + number(2, mapping) + number(3, address) + own)

    def mapping(self, at: int, file: str) -> None:
        self.data += sized(3, number(1, at) + number(5, self.text(file)))

    def sample(self, places: Sequence[int], values: Sequence[int], label: str = "", *, packed: bool = True) -> None:
        if packed:
            own = sized(1, b"".join(map(varint, places))) + sized(2, b"".join(map(varint, values)))
        else:
            own = b"".join(number(1, place) for place in places) + b"".join(number(2, value) for value in values)
        self.data += sized(2, own + (sized(3, number(1, self.text(label)) + number(3, 1)) if label else b""))

    def opened(self, tmp_path: Path) -> Profile:
        file = tmp_path / "made.pb"
        file.write_bytes(self.data + b"".join(sized(6, text.encode()) for text in self.texts))
        return aiflame.open(file)


def example(kinds: Sequence[tuple[str, str]], default: str = "") -> Made:
    """main calls step, in which inner is inlined; the kernel's part has no function."""
    file_of_pprof = Made(kinds, default)
    file_of_pprof.mapping(1, "/app/prog")
    file_of_pprof.mapping(2, "[kernel.kallsyms]")
    file_of_pprof.function(1, "main", "main.go", 3)
    file_of_pprof.function(2, "step", "step.py", 10)
    file_of_pprof.function(3, "inner", "inner.go")
    file_of_pprof.location(1, (1, 5), mapping=1)
    file_of_pprof.location(2, (3, 21), (2, 12), mapping=1)
    file_of_pprof.location(3, mapping=2, address=0xFFFF1234)
    return file_of_pprof


def test_every_kind_is_a_metric_and_time_on_cpus_is_time(tmp_path: Path) -> None:
    file_of_pprof = example([("samples", "count"), ("cpu", "microseconds"), ("alloc_space", "bytes"), ("alloc_objects", "count")])
    file_of_pprof.sample([2, 1], [3, 30, 7, 1], "request")
    file_of_pprof.sample([3, 2, 1], [1, 10, 0, -2], packed=False)
    profile = file_of_pprof.opened(tmp_path)
    step = ("prog", "main", "step", "inner")
    assert metrics(profile.store) == ["cpu-time", "alloc_objects", "samples", "alloc_space"]
    assert paths(profile.tree("cpu-time"), "cpu-time") == {step: 30_000, (*step, "0xffff1234"): 10_000}
    assert paths(profile.tree("samples"), "samples") == {step: 3, (*step, "0xffff1234"): 1}
    assert paths(profile.tree("alloc_space"), "alloc_space") == {step: 7}
    assert paths(profile.tree("alloc_objects"), "alloc_objects") == {step: 1, (*step, "0xffff1234"): -2}
    assert [profile.tree(name).metrics[0].unit for name in ("samples", "alloc_space", "alloc_objects")] == ["samples", "bytes", "objects"]
    assert profile.store.meta.imported is not None
    assert profile.store.meta.imported.unused == {"labels request": 1}
    kinds = {name: (Kind(kind), module) for name, kind, module in profile.tree("cpu-time").frames.select("name", "kind", "module").rows()}
    assert kinds["step"] == (Kind.PYTHON, "")
    assert kinds["inner"] == (Kind.C, "prog")
    assert kinds["0xffff1234"][0] == Kind.OS_KERNEL


def test_the_default_kind_is_the_profiles_own(tmp_path: Path) -> None:
    file_of_pprof = example([("inuse_space", "bytes"), ("delay", "nanoseconds"), ("contentions", "count")], "delay")
    file_of_pprof.sample([1], [1, 2, 3])
    assert file_of_pprof.opened(tmp_path).tree().metrics[0].name == "delay"


def test_a_difference_of_two_profiles_has_no_time(tmp_path: Path) -> None:
    file_of_pprof = example([("cpu", "nanoseconds")])
    file_of_pprof.sample([1], [-5])
    file_of_pprof.sample([2, 1], [9])
    profile = file_of_pprof.opened(tmp_path)
    assert metrics(profile.store) == ["cpu"]
    assert profile.tree().total("cpu") == 4


@pytest.mark.parametrize(("places", "values", "says"), [([1], [1, 2], "2 values of 1 kinds"), ([1] * 20_000, [1], "20,000 frames")])
def test_damage_is_an_error(tmp_path: Path, places: list[int], values: list[int], says: str) -> None:
    file_of_pprof = example([("samples", "count")])
    file_of_pprof.sample(places, values)
    with pytest.raises(AiflameError, match=says):
        file_of_pprof.opened(tmp_path)


def test_places_that_are_not_there_are_unknown(tmp_path: Path) -> None:
    file_of_pprof = example([("samples", "count")])
    file_of_pprof.sample([99, 1], [1])
    profile = file_of_pprof.opened(tmp_path)
    assert next(iter(paths(profile.tree(), "samples")))[-1] == "[unknown]"
    assert any("1 frames of the file refer" in note for note in profile.store.meta.degraded)


@pytest.mark.parametrize(
    ("name", "totals"),
    [
        ("go_heap.pb.gz", {"inuse_space": 2560714, "alloc_objects": 179, "alloc_space": 12587722, "inuse_objects": 26}),
        ("go_cpu.pb.gz", {"cpu-time": 770_000_000, "samples": 77}),
        ("go_mutex.pb.gz", {"delay": 394792341, "contentions": 1}),
    ],
)
def test_real_profiles_of_go_have_the_totals_that_its_own_tool_says(name: str, totals: dict[str, int]) -> None:
    """`go tool pprof -raw` lists every sample; the totals are sums of its columns."""
    profile = aiflame.open(FOLDER / name)
    assert {metric: profile.tree(metric).total(metric) for metric in metrics(profile.store)} == totals


@pytest.mark.parametrize(("comment", "layers"), [("aiflame 1.0", ["layers.0"]), ("go 1.22", [])])
def test_layers_are_read_from_our_own_files(tmp_path: Path, comment: str, layers: list[str]) -> None:
    """A label of that name may mean something else in another tool's file."""
    profile_of_pprof = example([("cpu", "nanoseconds")])
    label = sized(3, number(1, profile_of_pprof.text("layer")) + number(2, profile_of_pprof.text("layers.0")))
    profile_of_pprof.data += sized(2, sized(1, varint(1)) + sized(2, varint(50)) + label) + number(13, profile_of_pprof.text(comment))
    store = profile_of_pprof.opened(tmp_path).store
    assert store.table("layer_names").filter(path="layers.0")["path"].to_list() == layers
    assert store.meta.imported is not None
    assert store.meta.imported.unused == ({} if layers else {"labels layer": 1})


def of_jax(tmp_path: Path, kinds: Sequence[tuple[str, str]], *samples: tuple[int, int, str, str]) -> Profile:
    """As `jax.profiler.save_device_memory_profile()` writes it: number, bytes, kind and device."""
    file_of_pprof = example(kinds)
    for count, size, kind, device in samples:
        labels = [("kind", kind), ("device", device)] if device else [("kind", kind)]
        texts = b"".join(sized(3, number(1, file_of_pprof.text(key)) + number(2, file_of_pprof.text(of))) for key, of in labels)
        file_of_pprof.data += sized(2, sized(1, varint(1)) + sized(2, varint(count) + varint(size)) + texts)
    return file_of_pprof.opened(tmp_path)


JAX = [("allocations", "count"), ("space", "bytes")]


def test_arrays_of_jax_are_memory_of_their_devices(tmp_path: Path) -> None:
    samples = [(2, 4096, "buffer", "cuda:0"), (1, 512, "buffer", "cuda:1"), (1, 100, "buffer", "cpu:0"), (3, 0, "executable", "")]
    profile = of_jax(tmp_path, JAX, *samples)
    assert {name: profile.tree(name).total(name) for name in ("gpu-bytes", "host-bytes", "objects")} == {
        "gpu-bytes": 4608,
        "host-bytes": 100,
        "objects": 7,
    }
    assert sorted(profile.store.table("memory_blocks").select("memory", "bytes").rows()) == [("GPU 0", 4096), ("GPU 1", 512), ("host", 100)]
    assert profile.store.meta.imported is not None and profile.store.meta.imported.unused == {}


def test_values_of_other_kinds_with_such_labels_stay_as_they_are(tmp_path: Path) -> None:
    profile = of_jax(tmp_path, [("objects", "count"), ("space", "bytes")], (2, 4096, "buffer", "cuda:0"))
    assert {metric: profile.tree(metric).total(metric) for metric in metrics(profile.store)} == {"objects": 2, "space": 4096}
    assert profile.store.table("memory_blocks").is_empty()
