"""The list of findings: ids that stay, remedies, and sentences about missing data."""

from __future__ import annotations

import json
from pathlib import Path

from profiles import native, sealed
from small_program import SYMBOLS
from stories import Story, train

from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings import advice
from aiflame.analyze.findings.advice import GENERAL, fix
from aiflame.analyze.findings.listing import CUT_SHORT, NO_STALLS, Listing, listing, to_json
from aiflame.analyze.findings.waiting import GAINS
from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.resolve.device.stall_reasons import MEANINGS

S = 1_000_000_000


def waiting_for_data(path: Path, steps: int) -> Listing:
    story = Story()
    for number in range(steps):
        train(story, number, work=620, idle=380, wait="data")
    return listing(story.profile(path), 10)


def sampled(path: Path, samples: int, ran_ns: int = 0, meta: Meta | None = None) -> Listing:
    """Samples of 5 ms each, spread over functions of which none stands out."""
    rows = [{"thread": 1, "stack": 1 + number % 10, "weight": 1, "period_ns": 5_000_000} for number in range(samples)]
    tables = {"cpu_samples": rows} if rows else {}
    frames = [{"parent": 0, "frame": native(1, 0x1000 + 64 * number)} for number in range(10)]
    meta = meta or Meta(complete=True, started=Clocks(monotonic_ns=0), ended=Clocks(monotonic_ns=ran_ns))
    return listing(sealed(path / "p.aiflame", meta, stacks=frames, symbols=SYMBOLS, **tables), 10)


def test_an_id_is_the_same_in_every_recording_of_the_same_code(tmp_path: Path) -> None:
    before, after = waiting_for_data(tmp_path / "a", 5), waiting_for_data(tmp_path / "b", 8)
    assert before.findings[0].finding.sentence != after.findings[0].finding.sentence
    assert [one.id for one in before.findings] == [one.id for one in after.findings]
    assert before.findings[0].id.startswith("idle-data-")
    assert len({one.id for one in before.findings}) == len(before.findings)


def test_each_finding_has_advice(tmp_path: Path) -> None:
    first = waiting_for_data(tmp_path, 5).findings[0]
    assert "DataLoader workers" in first.fix


def test_a_stall_is_mended_by_its_reason() -> None:
    view = Evidence("kernels", stall="long_scoreboard")
    assert "shared memory" in fix(Finding("k takes 90% of GPU time", 0.9, view, "hot-stall"))
    group = fix(Finding("88% of GPU time is gemm", 0.9, view, "hot-group"))
    assert group.startswith("Make this work cheaper") and "For its top stall: Fetch" in group
    assert fix(Finding("", 0.9, Evidence("kernels", stall="new_reason"), "hot-stall")) == GENERAL


def test_advice_on_a_wait_follows_from_its_reason() -> None:
    assert "instead of threads" in fix(Finding("", 0.5, Evidence("flame"), "waiting-gil"))
    assert all(f"waiting-{why.value}" in advice._OF_KINDS for why in GAINS)


def test_advice_names_only_stall_reasons_that_there_are() -> None:
    assert set(advice.OF_STALLS) <= set(MEANINGS)


def test_without_samples_of_instructions_a_kernel_has_no_stalls_and_the_list_says_how_to_get_them(tmp_path: Path) -> None:
    assert NO_STALLS in waiting_for_data(tmp_path, 5).missing


def test_a_profile_with_nothing_in_it_says_how_to_record_more(tmp_path: Path) -> None:
    assert sampled(tmp_path / "a", 0).missing == (
        "Nothing was sampled: the program ended too soon; record it for longer, with a higher --cpu-rate, or with --wall",
    )
    assert sampled(tmp_path / "b", 0, ran_ns=3 * S).missing == (
        "Nothing was sampled in 3 s: the program hardly used the CPU, and waits were not sampled; record with --wall",
    )
    off = Meta(complete=True, options={"cpu_rate": 0})
    assert sampled(tmp_path / "c", 0, meta=off).missing == ("Nothing was sampled: it was recorded with --cpu-rate 0; record without it",)


def test_a_recording_that_was_cut_short_says_so(tmp_path: Path) -> None:
    assert sampled(tmp_path, 0, meta=Meta()).missing[0] == CUT_SHORT


def test_a_few_samples_say_little(tmp_path: Path) -> None:
    assert sampled(tmp_path, 12).missing[0].startswith("Only 12 samples of threads, and fewer than 50 say little: record it for longer")


def test_json_has_each_finding_with_its_evidence(tmp_path: Path) -> None:
    answer = waiting_for_data(tmp_path, 5)
    document = json.loads(to_json(answer))
    assert document["schema"] == "aiflame.findings/2"
    first = document["findings"][0]
    assert (first["id"], first["kind"], first["place"]) == (answer.findings[0].id, "idle-data", answer.findings[0].finding.view.place)
    assert first["evidence"]["table"] == "idle"
    assert document["missing"] == list(answer.missing)
