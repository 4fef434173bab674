"""Analyses of records from inside kernels, on kernels whose schedules are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calling import run_aiflame
from intra_captures import Cta, Kernel, scope, spans
from intra_kernels import (
    BEGIN_NS,
    COPIES,
    COPY,
    DOT,
    DOTTED,
    DRAIN,
    FIRST,
    ISSUE,
    ISSUED_LOAD,
    ITERATIONS,
    LOADED,
    LOOP,
    MATH,
    ONE_STAGE,
    PIPELINED,
    SECOND,
    gemm,
    one_stage,
    pipelined,
    profile_of,
)
from profiles import sealed, stack
from small_program import CODES, MAIN, PROCESSES, PYMAIN, SYMBOLS, THREADS, WORK

import aiflame.resolve.device.intra_tables as resolved
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.intra.kernels import IntraKernel, intra
from aiflame.analyze.overview.summary import summarize
from aiflame.analyze.spans import Spans, both, union, without
from aiflame.errors import AiflameError
from aiflame.intra import captures
from aiflame.profile.folder.door import Folder

RAN = {"name": "gemm", "device": "H200", "api": 1, "grid_x": 4, "grid_y": 1, "grid_z": 1}


def asked(path: Path, *frames: bytes, **tables: Any) -> IntraKernel:
    return intra(profile_of(path / "p.aiflame", *frames, **tables))[0]


def kinds(kernel: IntraKernel) -> list[str]:
    return [finding.kind for finding in kernel.findings]


class TestOverlap:
    def test_of_one_stage_none_is_found_and_the_bound_is_the_math_alone(self, tmp_path: Path) -> None:
        answer = asked(tmp_path, gemm(ONE_STAGE, one_stage))
        assert answer.overlap is not None
        assert answer.overlap.overlapped == 0
        assert answer.overlap.exposed == pytest.approx(COPY / (COPY + MATH), rel=0.02)
        assert answer.overlap.bound == pytest.approx(MATH / (COPY + MATH), rel=0.04)
        assert kinds(answer)[0] == "no-overlap"
        assert "do not overlap at all" in answer.findings[0].sentence

    def test_the_bound_of_one_stage_is_the_pipelined_kernels_time(self, tmp_path: Path) -> None:
        slow, fast = one_stage(0), pipelined(0)
        answer = asked(tmp_path, gemm(ONE_STAGE, one_stage))
        assert answer.overlap is not None
        assert answer.overlap.bound * slow[-1][2] == pytest.approx(fast[-1][2], rel=0.15)

    def test_of_a_pipelined_kernel_all_but_the_first_copies_are_hidden(self, tmp_path: Path) -> None:
        answer = asked(tmp_path, gemm(PIPELINED, pipelined))
        assert answer.overlap is not None
        assert answer.overlap.exposed * pipelined(0)[-1][2] == pytest.approx(COPY + (ITERATIONS - 1) * ISSUE, rel=0.02)
        assert answer.overlap.overlapped > 0.8

    def test_where_rings_wrapped_the_remaining_records_give_the_same_answer(self, tmp_path: Path) -> None:
        for name, scopes, schedule, exposed in (
            ("a", ONE_STAGE, one_stage, COPY / (COPY + MATH)),
            ("b", PIPELINED, pipelined, ISSUE / (ISSUE + MATH)),
        ):
            kernel = Kernel("gemm", scopes, warps=1, ring=64)
            records = schedule(0)
            cta = Cta(0, begin=BEGIN_NS, end=BEGIN_NS + records[-1][2] // 2, warps={0: records})
            answer = asked(tmp_path / name, kernel.frame(), kernel.launch(cta))
            assert answer.overlap is not None
            assert answer.overlap.exposed == pytest.approx(exposed, abs=0.04)
            assert any("overwritten" in warning for warning in answer.warnings)

    def test_while_one_cta_of_a_multiprocessor_waits_another_may_multiply(self, tmp_path: Path) -> None:
        scopes = [scope(0, "load", "load", op="tt.load"), scope(1, "dot", "mma", op="tt.dot")]
        kernel = Kernel("k", scopes, warps=1)
        one = Cta(0, sm=0, begin=BEGIN_NS, end=BEGIN_NS + 10_000, warps={0: spans((0, 0, 10_000), (1, 10_000, 20_000))})
        other = Cta(1, sm=0, begin=BEGIN_NS, end=BEGIN_NS + 10_000, warps={0: spans((1, 0, 10_000), (0, 10_000, 20_000))})
        alone = asked(tmp_path / "alone", kernel.frame(), kernel.launch(one))
        together = asked(tmp_path / "both", kernel.frame(), kernel.launch(one, other))
        assert alone.overlap is not None
        assert together.overlap is not None
        assert alone.overlap.exposed == pytest.approx(0.5, abs=0.02)
        assert together.overlap.exposed == pytest.approx(0, abs=0.02)

    def test_a_load_that_is_not_waited_for_by_name_is_needed_by_the_next_multiplication(self, tmp_path: Path) -> None:
        scopes = [scope(0, "load", "load", op="tt.load"), scope(1, "dot", "mma", op="tt.dot")]
        kernel = Kernel("k", scopes, warps=1)
        cta = Cta(0, begin=BEGIN_NS, end=BEGIN_NS + 10_000, warps={0: spans((0, 0, 20), (1, 15_000, 20_000))})
        answer = asked(tmp_path, kernel.frame(), kernel.launch(cta))
        assert answer.overlap is not None
        assert answer.overlap.exposed == pytest.approx(0.75, abs=0.02)

    def test_where_only_waits_mark_multiplications_the_next_wait_needs_the_copy(self, tmp_path: Path) -> None:
        scopes = [scope(0, "load", "load", op="tt.load", loop=0), scope(1, "wait dot", "wait", op="ttng.warp_group_dot_wait", loop=0)]
        kernel = Kernel("k", scopes, warps=1)
        cta = Cta(0, begin=BEGIN_NS, end=BEGIN_NS + 10_000, warps={0: spans((0, 0, 20), (1, 15_000, 20_000))})
        answer = asked(tmp_path, kernel.frame(), kernel.launch(cta))
        assert answer.overlap is not None
        assert answer.overlap.exposed == pytest.approx(0.75, abs=0.02)

    def test_stages_of_a_loop_within_a_loop_are_those_before_the_inner_one(self, tmp_path: Path) -> None:
        inside = {FIRST: 0, SECOND: 0, ISSUED_LOAD: 1, COPIES: 1, DOT: 1, DOTTED: 1}
        persistent = [{**one, "loop": inside.get(one["id"])} for one in PIPELINED]
        plain, nested = (asked(tmp_path / name, gemm(scopes, pipelined)) for name, scopes in (("a", PIPELINED), ("b", persistent)))
        assert nested.overlap == plain.overlap

    def test_waits_that_leave_a_multiplication_going_end_the_one_before(self, tmp_path: Path) -> None:
        """Each iteration waits for the multiplication before it: all the time something is multiplied."""
        scopes = [
            scope(DOT, "issue dot", "mma", op="ttng.warp_group_dot", loop=0), scope(FIRST, "load", "load", op="tt.load", loop=0),
            scope(DOTTED, "wait dot", "wait", op="ttng.warp_group_dot_wait", phase="wait", pair=DOT, loop=0),
            scope(DRAIN, "wait dot #2", "wait", op="ttng.warp_group_dot_wait"),
        ]  # fmt: skip
        loads = [one for at in range(0, 4000, 400) for one in ((DOT, at, at + 20), (DOTTED, at + 20, at + 40), (FIRST, at + 50, at + 60))]
        cta = Cta(0, begin=BEGIN_NS, end=BEGIN_NS + 2200, warps={0: spans(*loads, (DRAIN, 4000, 4400))})
        kernel = Kernel("k", scopes, warps=1)
        answer = asked(tmp_path, kernel.frame(), kernel.launch(cta))
        assert answer.overlap is not None
        assert answer.overlap.exposed == pytest.approx(0, abs=0.02)
        assert answer.overlap.math_ns == pytest.approx(2200, rel=0.03)

    def test_a_kernel_without_math_has_none(self, tmp_path: Path) -> None:
        kernel = Kernel("k", [scope(0, "load", "load", op="tt.load")], warps=1)
        assert asked(tmp_path, kernel.frame(), kernel.launch(Cta(0, warps={0: spans((0, 0, 9))}))).overlap is None


class TestScopes:
    def test_shares_are_of_the_warps_time_and_an_inner_scope_is_not_own_time(self, tmp_path: Path) -> None:
        scopes = {one.name: one for one in asked(tmp_path, gemm(ONE_STAGE, one_stage)).scopes}
        whole = COPY + MATH
        assert scopes["loop at 29"].share == pytest.approx(1, rel=0.01)
        assert scopes["loop at 29"].own_share == pytest.approx(0, abs=0.01)
        assert scopes["wait load a"].own_share == pytest.approx((COPY - 20) / whole, rel=0.01)
        assert scopes["wait dot acc"].own_share == pytest.approx((MATH - 20) / whole, rel=0.01)
        assert scopes["wait load a"].count == 4 * 2 * ITERATIONS
        assert scopes["wait load a"].median_ns == pytest.approx((COPY - 20) / 2, rel=0.01)

    def test_inner_rows_stand_behind_the_outer_one_the_heaviest_first(self, tmp_path: Path) -> None:
        scopes = asked(tmp_path, gemm(ONE_STAGE, one_stage)).scopes
        assert [(one.depth, one.name) for one in scopes][:3] == [(0, "loop at 29"), (1, "wait load a"), (1, "wait dot acc")]

    def test_outermost_scopes_make_up_the_time_of_ctas(self, tmp_path: Path) -> None:
        assert asked(tmp_path, gemm(PIPELINED, pipelined)).in_scopes == pytest.approx(1, rel=0.03)

    def test_the_warp_that_has_most_is_named(self, tmp_path: Path) -> None:
        kernel = Kernel("k", [scope(0, "work")], warps=3)
        cta = Cta(0, begin=BEGIN_NS, end=BEGIN_NS + 500, warps={0: spans((0, 0, 200)), 1: spans((0, 0, 1000)), 2: spans((0, 0, 200))})
        answer = asked(tmp_path, kernel.frame(), kernel.launch(cta))
        spread = answer.scopes[0].by_warp
        assert spread is not None
        assert spread.most == 1
        assert spread.ratio == pytest.approx(5, rel=0.01)
        assert "uneven-warps" in kinds(answer)


def test_a_wait_is_reported_with_its_first_time_apart(tmp_path: Path) -> None:
    bubbles = {one.name: one for one in asked(tmp_path, gemm(PIPELINED, pipelined)).bubbles}
    assert bubbles["wait copies"].fill_ns == pytest.approx((COPY - 40) / 2, rel=0.02)
    assert bubbles["wait copies"].steady_ns == pytest.approx(10, rel=0.02)


class TestRoles:
    PRODUCER, CONSUMER, EMPTY, FULL = range(4)
    SCOPES = (
        scope(PRODUCER, "producer", "role"), scope(CONSUMER, "consumer", "role"),
        scope(EMPTY, "wait empty", "wait", op="ttng.wait_barrier"), scope(FULL, "wait full", "wait", op="ttng.wait_barrier"),
    )  # fmt: skip

    def test_a_rank_that_works_while_the_others_wait_holds_them_up(self, tmp_path: Path) -> None:
        kernel = Kernel("k", self.SCOPES, warps=8, recorded=[0, 4])
        producer = spans((self.PRODUCER, 0, 20_000), (self.EMPTY, 2000, 10_000), (self.EMPTY, 12_000, 20_000))
        consumer = spans((self.CONSUMER, 0, 20_000), (self.FULL, 0, 2000))
        cta = Cta(0, begin=BEGIN_NS, end=BEGIN_NS + 10_000, warps={0: consumer, 4: producer})
        answer = asked(tmp_path, kernel.frame(), kernel.launch(cta))
        shares = [(role.name, role.warps, round(role.working, 2), round(role.critical, 2)) for role in answer.roles]
        assert shares == [("consumer", (0,), 0.9, 0.9), ("producer", (4,), 0.2, 0.1)]
        assert [round(role.alone, 2) for role in answer.roles] == [0.8, 0.1]
        assert "role" in kinds(answer)

    def test_a_kernel_without_roles_has_none(self, tmp_path: Path) -> None:
        assert asked(tmp_path, gemm(ONE_STAGE, one_stage)).roles == []


class TestBalance:
    def kernel(self, *took: tuple[int, int, int], grid: int = 0) -> bytes:
        """CTAs by (multiprocessor, begin, how long) in ns."""
        kernel = Kernel("k", [scope(0, "work")], warps=1)
        ctas = [
            Cta(number, sm=sm, begin=BEGIN_NS + at, end=BEGIN_NS + at + long - 100, warps={0: spans((0, 2 * at, 2 * (at + long) - 300))})
            for number, (sm, at, long) in enumerate(took)
        ]
        return kernel.frame() + kernel.launch(*ctas, grid=[grid or len(ctas), 1, 1])

    def test_a_last_wave_that_is_not_full_is_a_tail(self, tmp_path: Path) -> None:
        answer = asked(tmp_path, self.kernel((0, 0, 1000), (1, 0, 1000), (2, 0, 1000), (3, 0, 1000), (0, 1000, 1000)))
        assert answer.balance is not None
        assert answer.balance.tail == pytest.approx(3 / 8)
        assert answer.balance.waves == pytest.approx(5 / 4)
        assert "tail" in kinds(answer)

    def test_multiprocessors_that_are_busy_to_the_end_have_none(self, tmp_path: Path) -> None:
        answer = asked(tmp_path, self.kernel(*((sm, at, 1000) for sm in range(3) for at in (0, 1000))))
        assert answer.balance is not None
        assert answer.balance.tail == pytest.approx(0)
        assert answer.balance.idle == pytest.approx(0)
        assert "tail" not in kinds(answer)

    def test_two_ctas_at_once_are_one_wave(self, tmp_path: Path) -> None:
        answer = asked(tmp_path, self.kernel(*((sm, 0, 1000) for sm in range(3) for _ in range(2))))
        assert answer.balance is not None
        assert answer.balance.at_once == pytest.approx(2)
        assert answer.balance.waves == pytest.approx(1)

    def test_of_a_launch_that_was_not_read_as_a_whole_nothing_is_said(self, tmp_path: Path) -> None:
        assert asked(tmp_path, self.kernel((0, 0, 1000), grid=8)).balance is None

    def test_a_slow_multiprocessor_is_named(self, tmp_path: Path) -> None:
        answer = asked(tmp_path, self.kernel((0, 0, 1000), (1, 0, 1000), (5, 0, 1500)))
        assert "slow-sm" in kinds(answer)
        assert answer.balance is not None
        assert answer.balance.slowest_sm == 5


class TestChanges:
    @staticmethod
    def frames(plain: dict[str, int] | None, now: dict[str, int]) -> bytes:
        return gemm(ONE_STAGE, one_stage, header={"plain": plain, "instrumented": now, "arch": "sm_90"})

    def test_fewer_ctas_at_once_are_a_warning(self, tmp_path: Path) -> None:
        plain, now = ({"registers": 40, "shared": shared, "spills": 0} for shared in (100_000, 120_000))
        assert "1 CTAs fit on a multiprocessor instead of 2" in asked(tmp_path, self.frames(plain, now)).warnings[0]

    def test_spills_are_a_warning(self, tmp_path: Path) -> None:
        plain, now = ({"registers": 255, "shared": 0, "spills": spills} for spills in (0, 12))
        assert any("spills 12 registers" in one for one in asked(tmp_path, self.frames(plain, now)).warnings)

    def test_a_kernel_that_stayed_as_it_was_has_no_warning(self, tmp_path: Path) -> None:
        same = {"registers": 40, "shared": 0, "spills": 0}
        assert asked(tmp_path, self.frames(same, same)).warnings == []

    def test_its_time_is_compared_with_launches_that_record_nothing(self, tmp_path: Path) -> None:
        same = {"registers": 40, "shared": 0, "spills": 0}
        launches = [{"api": 1, "correlation": number, "begin_ns": 40 + number} for number in range(20)]
        kernels = [
            {**RAN, "correlation": number, "start_ns": 1000 * number, "end_ns": 1000 * number + (130 if number == 10 else 100)}
            for number in range(20)
        ]
        other = {**RAN, "grid_x": 9, "correlation": 99, "start_ns": 50_000, "end_ns": 59_999}
        changes = asked(tmp_path, self.frames(same, same), kernels=[*kernels, other], launches=launches).changes
        assert (changes.plain_launches, changes.instrumented_launches) == (19, 1)
        assert changes.overhead == pytest.approx(0.3)


def test_a_launch_is_found_among_those_of_its_name_by_when_it_was_made(tmp_path: Path) -> None:
    launches = [{"api": 1, "correlation": number, "begin_ns": 10 * number} for number in range(10)]
    kernels = [{**RAN, "correlation": number, "start_ns": 1000 * number, "end_ns": 1000 * number + 50} for number in range(10)]
    kernel = Kernel("gemm", ONE_STAGE, warps=1)
    frames = [kernel.launch(Cta(0, warps={0: spans((LOADED, 0, 9))}), begin_ns=at) for at in (31, 31, 70, 95)]
    profile = profile_of(tmp_path / "p.aiflame", kernel.frame(), *frames, kernels=kernels, launches=launches)
    assert sorted(profile.table("intra_launches")["start_ns"].to_list()) == [0, 4000, 5000, 7000]


def test_of_kernels_with_one_name_each_launch_belongs_to_its_own_build(tmp_path: Path) -> None:
    def build(registers: int) -> dict[str, int]:
        return {"registers": registers, "shared": 64, "spills": 0}

    launches = [{"api": 1, "correlation": number, "begin_ns": 100 + number} for number in range(40)]
    kernels = [
        {
            **RAN,
            "correlation": number,
            "start_ns": 1000 * number,
            "end_ns": 1000 * number + took,
            "registers": registers,
            "dynamic_shared": 64,
        }
        for number in range(40)
        for registers, took in [((41, 130) if number == 20 else (40, 100)) if number % 2 == 0 else (90, 500)]
    ]
    changes = asked(
        tmp_path, gemm(ONE_STAGE, one_stage, header={"plain": build(40), "instrumented": build(41)}), kernels=kernels, launches=launches
    ).changes  # fmt: skip
    assert (changes.plain_launches, changes.took_ns) == (19, (100, 130))


def test_names_that_a_program_chose_do_no_harm(tmp_path: Path) -> None:
    hostile = [scope(0, "\x1b[31m<script>alert(1)</script>\n\x00" + "x" * 9000, file="a\x07b.py"), scope(1, "[bold]/[/]")]
    kernel = Kernel("k\x1b[2J", hostile, warps=1)
    profile = profile_of(tmp_path / "p.aiflame", kernel.frame(), kernel.launch(Cta(0, warps={0: spans((0, 0, 9), (1, 20, 30))})))
    answer = run_aiflame("intra", str(profile.path))
    assert answer.status == 0
    assert "\x1b" not in answer.out
    assert "[bold]/[/]" in answer.out


def test_captures_are_read_once_and_go(tmp_path: Path) -> None:
    profile = profile_of(tmp_path / "p.aiflame", gemm(ONE_STAGE, one_stage), b"AFIC")
    assert not (profile.path / "intra").exists()
    assert any("cut off" in note for note in profile.notes())
    assert profile.table("intra_spans")["scope"].unique().sort().to_list() == [0, LOADED, 2, DOTTED, LOOP]


def test_the_answer_as_json_has_the_results(tmp_path: Path) -> None:
    profile = profile_of(tmp_path / "p.aiflame", gemm(ONE_STAGE, one_stage))
    answer = run_aiflame("intra", str(profile.path), "gem", "--json")
    document = json.loads(answer.out)[0]
    assert document["overlap"]["bound_ns"] == pytest.approx(document["took_ns"] * document["overlap"]["bound"])
    assert {finding["kind"] for finding in document["findings"]} >= {"no-overlap", "wait"}


def test_a_profile_without_records_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="--intra"):
        intra(sealed(tmp_path / "p.aiflame"))


def test_an_unknown_kernel_is_an_error_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="there are gemm"):
        intra(profile_of(tmp_path / "p.aiflame", gemm(ONE_STAGE, one_stage)), "attention")


def test_intervals_in_both_and_in_one_alone() -> None:
    one, other = (union(*(_array(values) for values in zip(*spans_of, strict=True))) for spans_of in ([(0, 10), (20, 30)], [(5, 25)]))
    assert _pairs(both(one, other)) == [(5, 10), (20, 25)]
    assert _pairs(without(one, other)) == [(0, 5), (25, 30)]
    assert _pairs(without(other, one)) == [(10, 20)]


def _array(values: tuple[int, ...]) -> Any:
    return np.array(values, dtype=np.int64)


def _pairs(of_kind: Spans) -> list[tuple[int, int]]:
    return list(zip(of_kind.begin.tolist(), of_kind.end.tolist(), strict=True))


def test_the_reports_first_sentences_include_findings_inside_kernels(tmp_path: Path) -> None:
    executions = [{**RAN, "correlation": 1, "start_ns": 1000, "end_ns": 61_000}]
    profile = profile_of(
        tmp_path / "p.aiflame", gemm(ONE_STAGE, one_stage), kernels=executions, pid=PROCESSES[0]["pid"], processes=PROCESSES,
        threads=THREADS, symbols=SYMBOLS, codes=CODES, stacks=stack(MAIN, PYMAIN, WORK),
        launches=[{"thread": 1, "stack": 1, "api": 1, "correlation": 1}],
    )  # fmt: skip
    sentences = [one for one in findings(profile, summarize(profile, profile.meta)) if one.kind == "inside-no-overlap"]
    assert sentences[0].sentence.startswith("gemm takes 100% of GPU time; inside, copies and math do not overlap at all")
    assert sentences[0].recoverable == pytest.approx(COPY / (COPY + MATH), rel=0.05)


def test_captures_that_cannot_be_read_stay_and_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_some(folder: Folder, pid: int) -> captures.Captures:
        if pid == 8:
            raise AiflameError("permission denied")
        return captures.read(folder, pid)

    (tmp_path / "p.aiflame" / "intra").mkdir(parents=True)
    (tmp_path / "p.aiflame" / "intra" / "8.captures").write_bytes(b"recorded")
    monkeypatch.setattr(resolved, "read", read_some)
    profile = profile_of(tmp_path / "p.aiflame", gemm(ONE_STAGE, one_stage))
    assert [path.name for path in (profile.path / "intra").iterdir()] == ["8.captures"]
    assert "records from inside kernels of process 8 cannot be read: permission denied" in profile.meta.degraded
    assert intra(profile)[0].name == "gemm"


def test_scopes_that_are_left_out_are_counted(tmp_path: Path) -> None:
    profile = profile_of(tmp_path / "p.aiflame", gemm(ONE_STAGE, one_stage, header={"left_out": 44}))
    assert [note for note in profile.notes() if "scopes" in note] == [
        "44 scopes inside kernels are not timed: records distinguish only 256 in a kernel, and the outermost were kept"
    ]
