"""Any program, exported and imported again: every figure that a format can carry is the same."""

from __future__ import annotations

import functools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from calling import run_aiflame
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from timelines import Program
from trees import paths

import aiflame
from aiflame.analyze.top import top
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.groupings import LISTS
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.tree import Tree
from aiflame.attribute.trees.build import metrics, tree
from aiflame.errors import AiflameError
from aiflame.profile.schema.enums import CopyKind, GpuApi, SampleState
from aiflame.profile.tables.store import Profile

LAUNCHES = st.lists(
    st.tuples(
        *(st.integers(low, high) for low, high in ((0, 300), (1, 40), (0, 60), (1, 300))),
        st.sampled_from([(), ("mm",), ("layers.0", "mm"), ("layers.0", "layers.0.attn", "add")]),
        st.integers(1, 2),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=10,
)
"""Time after the last launch, its own, until its work, the work's; place; thread; kind of work: 0 is a copy."""
SAMPLES = st.lists(
    st.tuples(st.integers(1, 3000), st.integers(1, 2), st.integers(0, 1), st.sampled_from(["mm", "relu"]), st.booleans()), max_size=8
)
"""Moment, thread, clock, op, whether it waits."""
Figures = dict[str, tuple[int, int]]


def program_of(launches: Any, samples: Any, folder: Path) -> Profile:
    program = Program()
    begin = 1
    for gap, took, delay, lasts, place, thread, kind in launches:
        begin += gap
        number = program.launch(begin, begin + took, *place, thread=thread)
        if kind:
            program.kernel(number, begin + delay, begin + delay + lasts, name=f"k{kind}", stream=6 + kind)
        else:
            span = {"start_ns": begin + delay, "end_ns": begin + delay + lasts, "correlation": number, "api": int(GpuApi.CUDA)}
            program.rows("copies", {**span, "kind": int(CopyKind.HOST_TO_DEVICE), "bytes": 64 * lasts, "device": "GPU [0]", "stream": 7})
        begin += took
    states = {False: int(SampleState.ON_CPU), True: int(SampleState.WAITING)}
    for at, thread, clock, op, waits in samples:
        stack, state = program.stack(op), states[waits and clock == 1]
        row = {"thread": thread, "stack": stack, "time_ns": at, "period_ns": 100, "weight": 1, "clock": clock, "state": state}
        program.rows("cpu_samples", row)
    return program.profile(folder)


def written(profile: Profile, to: str, *options: str, suffix: str = "") -> Path:
    file = profile.path.with_name(f"run.{to}{suffix}")
    said = run_aiflame("export", str(profile.path), "--to", to, "-o", str(file), *options)
    assert said.status == 0, said.err
    return file


@functools.lru_cache(maxsize=32)
def busy_tree(profile: Analysis, metric: str, grouping: str) -> Tree:
    """Several lists are made of one tree."""
    return without_idle(tree(profile, metric, grouping))


def of_list(profile: Analysis, metric: str, by: str) -> Figures:
    """Own value and total of each row, without idle devices. An empty list: the metric has none."""
    try:
        of = busy_tree(profile, metric, by if LISTS[by].grouped else "code")
        return {row["name"]: (row["self"], row["total"]) for row in top(of, by, metric).to_dicts()}
    except AiflameError:
        return {}


def check_pprof(profile: Profile) -> None:
    """All metrics, with layers, functions, modules, processes and threads. Read again, ops have frames, without own time."""
    recorded, again = Analysis(profile), Analysis(aiflame.open(written(profile, "pprof", "--raw", "--no-idle")).store)
    named = {name.partition("-ns")[0].removesuffix("-bytes"): name for name in metrics(again)}
    for metric in metrics(recorded):
        assert of_list(again, named.get(metric, metric), "layer") == of_list(recorded, metric, "layer"), metric
        for by in ("function", "module", "thread", "process"):
            before, after = of_list(recorded, metric, by), of_list(again, named.get(metric, metric), by)
            assert {name: sums for name, sums in after.items() if name in before or sums[0]} == before, (metric, by)


def check_firefox(profile: Profile) -> None:
    """Wall-clock time of threads and functions; time of kernels and copies is that of a thread for each stream."""
    recorded, again = Analysis(profile), Analysis(aiflame.open(written(profile, "firefox")).store)
    threads = {name: own for name, (own, _) in of_list(again, "wall-time", "thread").items()}
    streams = {name: own for name, own in threads.items() if " stream " in name}
    assert {name: own for name, own in threads.items() if name not in streams} == {
        name: own for name, (own, _) in of_list(recorded, "wall-time", "thread").items()
    }
    functions, work = of_list(recorded, "wall-time", "function"), of_list(recorded, "gpu-time", "kernel")
    own = Counter({name: value for name, (value, _) in functions.items()}) + Counter({name: value for name, (value, _) in work.items()})
    assert Counter({name: value for name, (value, _) in of_list(again, "wall-time", "function").items() if value}) == own
    assert sum(streams.values()) == sum(value for value, _ in work.values())


def check_speedscope(profile: Profile) -> None:
    """The stacks of a metric, and its name."""
    recorded = Analysis(profile)
    for metric in metrics(recorded):
        file = written(profile, "speedscope", "--raw", "--metric", metric)
        again = aiflame.open(file)
        (name,) = metrics(again.store)
        of_file = again.tree(name)
        names = [frame["name"] for frame in json.loads(file.read_text())["shared"]["frames"]]
        assert len(of_file.frames) <= len(names) + 3
        read = Counter({path[1:]: value for path, value in paths(of_file, name).items()})  # the first is the file's profile
        assert read == paths(tree(recorded, metric), metric)
        if metric in ("cpu-time", "wall-time"):
            assert name == metric


def check_collapsed(profile: Profile) -> None:
    recorded = Analysis(profile)
    for metric in metrics(recorded):
        file = written(profile, "collapsed", "--raw", "--metric", metric, suffix=".txt")
        before = file.read_text()
        said = run_aiflame("export", str(file), "--raw", "-o", str(file.with_suffix(".again")))
        assert said.status == 0, said.err
        assert file.with_suffix(".again").read_text() == before
        assert aiflame.open(file).tree("samples").total("samples") == tree(recorded, metric).total(metric)


def check_chrome(profile: Profile) -> None:
    check_work(Analysis(profile), Analysis(aiflame.open(written(profile, "chrome", suffix=".json")).store))


def check_kineto(profile: Profile) -> None:
    recorded, again = Analysis(profile), Analysis(aiflame.open(written(profile, "kineto", suffix=".json")).store)
    check_work(recorded, again)
    for metric in ("gpu-time", "bytes"):
        for by in ("op", "layer", "step", "phase"):
            assert of_list(again, metric, by) == of_list(recorded, metric, by), (metric, by)


def check_work(before: Analysis, after: Analysis) -> None:
    """Each kernel and copy with its time, its distance from the first and its thread; each launch."""
    for metric in ("gpu-time", "bytes"):
        for by in ("kernel", "thread"):
            assert of_list(after, metric, by) == of_list(before, metric, by), (metric, by)
    for table, first, last in (("kernels", "start_ns", "end_ns"), ("copies", "start_ns", "end_ns"), ("launches", "begin_ns", "end_ns")):
        moments = [sorted(one.table(table).select(first, last).rows()) for one in (before, after)]
        shift = moments[1][0][0] - moments[0][0][0] if moments[0] else 0
        assert [(begin + shift, end + shift) for begin, end in moments[0]] == moments[1], table


CHECKS = [check_pprof, check_firefox, check_speedscope, check_collapsed, check_chrome, check_kineto]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@settings(max_examples=6, phases=[Phase.generate])  # to make an example smaller takes minutes
@given(launches=LAUNCHES, samples=SAMPLES)
def test_a_format_keeps_what_it_can_carry(check: Any, launches: Any, samples: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("trip")
    (folder / "cache").mkdir(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        check(program_of(launches, samples, folder))
