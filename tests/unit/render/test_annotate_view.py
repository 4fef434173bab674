"""How an annotated kernel looks in a terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from sampled_kernels import CODE, LIBRARY, Sampled, line, profile

from aiflame.analyze.kernel.annotate import Count, annotate
from aiflame.profile.tables.store import Profile
from aiflame.render.terminal.annotate import print_annotation
from aiflame.render.terminal.annotate_cells import fitted, harmless, reasons_text

GEMM = Sampled(
    "_Z4gemmILi4EEvPf",
    [
        (0x0000, "LDC R1, c[0x0][0x28]", line(3), {}),
        (0x0010, "LDG.E R4, [R2.64]", line(4), {"long_scoreboard": 600, "long_scoreboard_not_issued": 500, "selected": 50}),
        (0x0020, "FADD R4, R4, R5", line(5), {"wait": 200, "wait_not_issued": 150}),
        (0x0030, "BAR.SYNC 0x0", line(4), {"barrier": 149}),
        (0x0040, "EXIT", line(20), {"drain": 1}),
    ],
    short="gemm<4>",
    full="void gemm<4>(float*)",
    launches=3,
    shape={"registers": 168, "dynamic_shared": 49152, "static_shared": 1024, "local_bytes": 16},
)
TEXT = "\n".join(["import triton", "", "def kernel(p):", "\tx = load(p)", "    return x + 1", *["# more"] * 14, "    # end"])


def shown(
    opened: Profile, wanted: str = "gemm", width: int = 100, least: float = 0.0, *, by_code: bool = False, color: bool = False
) -> list[str]:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=color, highlight=False)
    print_annotation(annotate(opened, wanted), least, by_code=by_code, console=console)
    return text.getvalue().splitlines()


def rows(of: list[str], part: str) -> list[str]:
    return [row.strip() for row in of if part in row]


@pytest.fixture
def gemm(tmp_path: Path) -> Profile:
    return profile(tmp_path / "gemm", GEMM, sources={CODE: TEXT})


def test_the_header_describes_the_kernel(gemm: Profile) -> None:
    assert shown(gemm)[:8] == [
        "gemm<4>",
        "  full name    void gemm<4>(float*)",
        "  compiled as  _Z4gemmILi4EEvPf",
        "  device       H100",
        "  launches     3 in 3 ms of GPU time (100.0% of all), 1 ms each",
        "  launched as  grid 8×1×1, block 128×1×1",
        "  resources    168 registers a thread, 49 KiB shared memory a block (1 KiB static, 48 KiB dynamic),",
        "               16 bytes local memory a thread (stack, spills)",
    ]
    assert shown(gemm)[8] == "  samples      1,000 (100.0% of all), every 16,384 cycles; 10.0% of the device's were dropped"


def test_reasons_have_all_samples_those_without_issue_and_a_meaning(gemm: Profile) -> None:
    assert rows(shown(gemm), "waits for a result from global")[0].split()[:4] == ["60.0%", "600", "500", "long_scoreboard"]
    assert rows(shown(gemm), "not a stall")[0].split()[:3] == ["5.0%", "50", "selected"]
    assert rows(shown(gemm), " all ")[0].split()[:3] == ["100.0%", "1,000", "650"]


@pytest.mark.parametrize(("many", "folded"), [(9, False), (10, True)])
def test_of_many_reasons_the_rare_ones_are_summed(tmp_path: Path, many: int, folded: bool) -> None:
    waits = {f"reason_{at}": 100 - at for at in range(many)}
    of = shown(profile(tmp_path / "p", replace(GEMM, code=[(0, "NOP", line(4), waits)])))
    assert bool(rows(of, "2 more")) is folded
    assert not rows(of, "1 more")
    assert any(row.endswith(" reason_8") for row in of) is not folded


def test_the_hottest_lines_are_numbered_and_found_again_in_the_listing(gemm: Profile) -> None:
    first = rows(shown(gemm), "#1")
    assert [row.split()[:3] for row in first] == [["#1", "79.9%", "799"]] * 2
    assert "attn.py:4" in first[0]
    assert first[1].endswith("x = load(p)")


def test_in_a_narrow_terminal_instructions_stand_under_their_line(gemm: Profile) -> None:
    of = shown(gemm, width=80)
    start = of.index(CODE + "  100.0%")
    listing = [row.split() for row in of[start + 1 : start + 9]]
    assert listing[0] == ["%", "samples", "line", "source"]
    assert listing[1] == ["3", "def", "kernel(p):"]
    assert listing[2] == ["0000", "LDC", "R1,", "c[0x0][0x28]"]
    assert listing[3] == ["#1", "79.9%", "799", "4", "x", "=", "load(p)"]
    assert listing[4] == ["└", "long_scoreboard", "75%,", "barrier", "19%,", "selected", "6%"]
    assert listing[5] == ["►", "0010", "65.0%", "650", "LDG.E", "R4,", "[R2.64]", "long_scoreboard", "92%"]
    assert listing[6] == ["►", "0030", "14.9%", "149", "BAR.SYNC", "0x0", "barrier", "100%"]


def test_in_a_wide_terminal_they_stand_beside_it(gemm: Profile) -> None:
    row = rows(shown(gemm, width=180), "│ ► 0010")[0]
    left, right = row.split("│")
    assert left.split() == ["#1", "79.9%", "799", "500", "4", "x", "=", "load(p)"]
    assert right.split() == ["►", "0010", "65.0%", "650", "500", "LDG.E", "R4,", "[R2.64]", "long_scoreboard", "92%,", "selected", "8%"]


def test_lines_without_code_are_shown_between_those_with_and_long_gaps_are_marked(tmp_path: Path) -> None:
    opened = profile(
        tmp_path / "p",
        replace(GEMM, code=[(0, "A", line(1), {"wait": 1}), (1, "B", line(3), {}), (2, "C", line(20), {})]),
        sources={CODE: TEXT},
    )
    of = [row.strip() for row in shown(opened)]
    assert of[of.index("3 def kernel(p):") - 1] == "2"
    assert of[of.index("20     # end") - 1] == "⋮"


INLINED = Sampled(
    "softmax",
    [
        (0x10, "FMNMX R3, R4, R5", [("softmax", CODE, 3), ("rowmax", CODE, 5), ("max", LIBRARY, 30)], {"wait": 40}),
        (0x20, "FADD R3, R4, R6", line(5), {"wait": 60}),
    ],
)


@pytest.mark.parametrize("width", [80, 180])
def test_inlined_code_shows_its_chain(tmp_path: Path, width: int) -> None:
    of = shown(profile(tmp_path / "p", INLINED), "softmax", width)
    chain = next(place for place, row in enumerate(of) if "← attn.py:5 ← attn.py:3" in row)
    assert "FMNMX" in of[chain + 1]
    assert ["40.0%", "3"] in [row.split("│")[0].split() for row in of], "line 3: nothing of its own, 40% with inlined code"


def test_the_order_of_the_code_shows_each_instruction_with_its_line(gemm: Profile) -> None:
    of = shown(gemm, by_code=True)
    begin = of.index("SASS") + 2
    code = [row.split() for row in of[begin : of.index("", begin)]]
    assert [row[1] if row[0] == "►" else row[0] for row in code] == ["0000", "0010", "0020", "0030", "0040"]
    assert code[1][:6] == ["►", "0010", "65.0%", "650", "500", "attn.py:4"]


def test_a_hint_says_that_the_load_lies_before_the_waiting_instruction(gemm: Profile, tmp_path: Path) -> None:
    hint = "samples stand at the instruction that waits to be issued; the load or barrier that it waits for lies before it"
    assert hint in shown(gemm, width=120)
    assert hint not in shown(profile(tmp_path / "p", replace(GEMM, code=[])), width=120)


def test_cold_instructions_are_counted_not_shown(tmp_path: Path) -> None:
    cold = [(16 * place, f"NOP {place}", line(4), {"wait": 1} if place % 2 else {}) for place in range(10)]
    opened = profile(tmp_path / "p", replace(GEMM, code=[*cold, (0x100, "BRA", line(4), {"wait": 995})]), sources={CODE: TEXT})
    folded = shown(opened, least=0.5)
    assert not rows(folded, "NOP")
    assert rows(folded, "10 instructions") == ["⋮  0.50%         5           10 instructions"]
    assert len(rows(shown(opened, least=0), "NOP")) == 10
    around = rows(shown(opened, least=0.5, by_code=True), "NOP")
    assert [row.split()[0] for row in around] == ["0080", "0090"], "by the code's order, a hot instruction's neighbours are shown"


def test_an_instruction_with_just_the_least_share_is_shown(tmp_path: Path) -> None:
    code = [(16 * place, f"NOP {place}", line(4), {"wait": 9 + place}) for place in range(5)]
    branch = (0x100, "BRA", line(4), {"wait": 1000 - sum(9 + place for place in range(5))})
    of = shown(profile(tmp_path / "p", replace(GEMM, code=[*code, branch])), least=1.2)
    assert [row.partition("NOP ")[2][0] for row in rows(of, "NOP")] == ["3", "4"]


def test_without_lines_it_is_sass_without_sass_offsets(tmp_path: Path) -> None:
    no_lines = replace(GEMM, code=[(offset, sass, (), waits) for offset, sass, _, waits in GEMM.code])
    stripped = replace(GEMM, code=[(offset, "", (), waits) for offset, _, _, waits in GEMM.code])
    of = shown(profile(tmp_path / "p", no_lines))
    assert "SASS" in of
    assert rows(of, "► 0010")[-1].split()[:6] == ["►", "0010", "65.0%", "650", "500", "LDG.E"]
    of = shown(profile(tmp_path / "q", stripped))
    assert "Offsets" in of
    assert rows(of, "► 0010")[-1].split()[:6] == ["►", "0010", "65.0%", "650", "500", "long_scoreboard"]
    assert rows(of, "no source lines")


def test_code_without_a_line_among_code_with_lines_is_listed_last(tmp_path: Path) -> None:
    of = shown(profile(tmp_path / "p", replace(GEMM, code=[*GEMM.code, (0x50, "BRA 0x50", (), {"wait": 3})]), sources={CODE: TEXT}))
    assert "BRA 0x50" in of[of.index("No source line") + 1]


def test_a_missing_text_is_said(tmp_path: Path) -> None:
    assert rows(shown(profile(tmp_path / "p", GEMM)), "source not in the profile: --source-path DIR")


def test_without_samples_there_is_the_header_and_advice(tmp_path: Path) -> None:
    of = shown(profile(tmp_path / "p", replace(GEMM, code=())))
    assert rows(of, "3 in 3 ms of GPU time")
    assert "--gpu-sampling auto" in of[-2]


def test_others_that_match_are_named_with_their_shares(tmp_path: Path) -> None:
    other = Sampled("_Z5gemm2v", [(0, "EXIT", (), {"wait": 250})], short="gemm2")
    assert rows(shown(profile(tmp_path / "p", GEMM, other)), "also matches") == ["also matches (share of all samples): gemm2 20.0%"]


def test_others_with_the_same_short_name_get_longer_names(tmp_path: Path) -> None:
    other = replace(GEMM, name="_Z4gemmILi4EEvPd", full="void gemm<4>(double*)", code=[(0, "EXIT", (), {"wait": 250})])
    assert rows(shown(profile(tmp_path / "p", GEMM, other)), "also matches")[0].endswith(": void gemm<4>(double*) 20.0%")


WILD = Sampled(
    "k" * 10_000,
    [
        (
            0x10,
            "MOV\tR1, \x1b[31mR2" + "x" * 5000,
            [("k", "/s/\x1b]0;title\x07.py", 1), ("f", "/deep/" + "d" * 3000, 2)],
            {"w\x1b[2J" + "y" * 500: 7},
        ),
        (0x20, "NOP", line(3, "/s/\x1b]0;title\x07.py"), {"wait": 1}),
    ],
    full="void " + "k" * 10_000,
    short="k<" + "日本" * 3000 + ">",
    shape={"device": "H\x1b[1m" + "1" * 500},
)


@pytest.mark.parametrize("width", [10, 40, 80, 120, 139, 140, 180, 400])
@pytest.mark.parametrize("by_code", [False, True])
def test_nothing_is_wider_than_the_terminal_or_moves_its_cursor(tmp_path: Path, width: int, by_code: bool) -> None:
    opened = profile(tmp_path / "p", WILD, sources={"/s/\x1b]0;title\x07.py": "\x1b[2J\u202eevil\x00\tand tabs\u2028\n" * 5})
    of = shown(opened, "kkk", width, by_code=by_code)
    assert max(map(cell_len, of)) <= width
    assert not any(char in row for row in of for char in "\x1b\x00\t\x07\u2028\u202e")


@pytest.mark.parametrize(
    ("text", "fits"),
    [("abcdef", "abcd…"), ("abcde", "abcde"), ("ab", "ab   "), ("日本語", "日本…"), ("日本", "日本 "), ("日本語x", "日本…")],
)
def test_a_cell_is_as_wide_as_its_column(text: str, fits: str) -> None:
    assert fitted(text, 5).plain == fits
    assert fitted(text, 5, right=True).plain.strip() == fits.strip()
    assert cell_len(fitted(text, 5, right=True).plain) == 5
    assert fitted(text, 0).plain == ""


def test_tabs_are_as_wide_as_they_look() -> None:
    assert harmless("\tx\ty") == "    x   y"


def test_a_pipe_gets_no_escape_codes(gemm: Profile) -> None:
    assert "\x1b" not in "\n".join(shown(gemm))
    assert "\x1b" in "\n".join(shown(gemm, color=True))


def test_brackets_in_code_are_not_taken_for_markup(gemm: Profile) -> None:
    assert rows(shown(gemm), "LDG.E R4, [R2.64]")


def test_a_summary_has_the_reasons_that_have_room() -> None:
    reasons = {"barrier": Count(60), "wait": Count(30), "drain": Count(8), "misc": Count(2)}
    assert reasons_text(reasons, 80) == "barrier 60%, wait 30%, drain 8%"
    assert reasons_text(reasons, 22) == "barrier 60%, wait 30%"
    assert reasons_text(reasons, 5) == "barrier 60%", "the first one is cut rather than left out"
    assert reasons_text({}, 80) == ""
