"""Source and SASS in a real browser: bars, lines lit with their instructions, the way to the hottest, and a message where something is
missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from profiles import sealed
from report_profiles import LINES, SOURCE, with_symbols
from report_visits import COPIED, Opener, Visit
from sampled_kernels import CODE, LIBRARY, Sampled
from sampled_kernels import profile as sampled

from aiflame.render.report.code import MOST_IN_A_FILE
from aiflame.render.report.document import write

SOURCES, SASS = ".pane[aria-label=Source]", ".pane[aria-label=Instructions]"


@pytest.fixture(scope="module")
def inlined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`attend` calls `load` of a library at its lines 2 and 3; the library's text is not known. `late` is another kernel, less hot."""
    folder = tmp_path_factory.mktemp("inlined")
    kernel = Sampled(
        "attend",
        [
            (0, "MOV R1, R2", (("attend", CODE, 1),), {"selected": 10}),
            (16, "LDG.E R3, [R4]", (("attend", CODE, 2), ("load", LIBRARY, 7)), {"long_scoreboard": 50, "wait": 10}),
            (32, "LDG.E R5, [R6]", (("attend", CODE, 3), ("load", LIBRARY, 7)), {"long_scoreboard": 20}),
            (48, "EXIT", (("attend", CODE, 3),), {"lg_throttle": 10}),
            (64, "NOP", (), {}),
        ],
        full="attend<float, 64>(float*)",
    )
    late = Sampled("late", [(0, "EXIT", (("late", CODE, 4),), {"wait": 5})])
    cold = Sampled("cold", each_ns=500)
    profile = sampled(folder / "p.aiflame", kernel, late, cold, sources={CODE: "def attend():\n  a = load()\n  b = load()\n  late\n"})
    write(with_symbols(profile), folder / "r.html")
    return folder / "r.html"


def rows(visit: Visit, pane: str) -> list[list[str]]:
    """Name, share and text of each line."""
    cells: list[list[str]] = visit.page.eval_on_selector_all(
        f"{pane} .line",
        "lines => lines.map((line) => ['.line-name', '.share', 'code'].map((part) => line.querySelector(part).textContent))",
    )
    return cells


def lit(visit: Visit, pane: str) -> list[str]:
    """Names of the lines that are highlighted."""
    return list(visit.page.eval_on_selector_all(f"{pane} .line.lit .line-name", "all => all.map((one) => one.textContent)"))


def ready(visit: Visit, pane: str = SASS) -> None:
    visit.wait(f"document.querySelectorAll('{pane} .line').length > 0")


def line(visit: Visit, pane: str, name: str) -> Any:
    return visit.page.locator(f"{pane} .line", has=visit.page.locator(f".line-name:text-is('{name}')"))


def test_source_and_instructions_have_their_shares_side_by_side(visit: Opener, report: Path) -> None:
    seen = visit(report, "#view=code")
    ready(seen, SOURCES)
    assert seen.text(".kernel-title") == "sgemm"
    assert rows(seen, SOURCES) == [
        ["1", "", LINES[0]],
        ["2", "10.0%", LINES[1]],
        ["3", "60.0%", LINES[2]],
        ["4", "30.0%", LINES[3]],
        ["5", "", LINES[4]],
        ["6", "", LINES[5]],
    ]
    assert [(name, share) for name, share, _ in rows(seen, SASS)] == [("0000", ""), ("0010", "10.0%"), ("0030", "60.0%"), ("0050", "30.0%")]
    assert rows(seen, SASS)[2][2] == "LDG.E R2, [R4.64]"
    left, right = (seen.page.locator(pane).bounding_box() for pane in (SOURCES, SASS))
    assert left["x"] + left["width"] <= right["x"] + 1
    assert left["y"] == right["y"]


def test_bars_are_stacked_by_reason_and_the_hottest_fills_its_place(visit: Opener, report: Path) -> None:
    seen = visit(report, "#view=code")
    ready(seen)
    bars = seen.page.eval_on_selector_all(
        f"{SASS} .line",
        "lines => lines.map((line) => [...line.querySelectorAll('.stalls i')].map((part) => [part.className, part.style.width]))",
    )
    assert bars[0] == []
    assert [name for name, _ in bars[1]] == ["stall-issued", "stall-latency"]
    assert bars[2] == [["stall-memory", "100%"]]
    assert bars[3] == [["stall-barrier", "50%"]]
    colors = {
        seen.style(f".stall-legend .{name}", "backgroundColor")
        for name in ("stall-memory", "stall-barrier", "stall-issued", "stall-latency")
    }
    assert len(colors) == 4


def test_the_legend_names_reasons_most_frequent_first_and_explains_them(visit: Opener, report: Path) -> None:
    seen = visit(report, "#view=code")
    ready(seen)
    assert [text.split()[:2] for text in seen.texts(".stall-legend li")] == [
        ["long_scoreboard", "60.0%"],
        ["barrier", "30.0%"],
        ["selected", "5.0%"],
        ["wait", "5.0%"],
    ]
    assert "global, local" in seen.page.get_attribute(".stall-legend li >> nth=0", "title")
    title = line(seen, SOURCES, "3").locator(".share").get_attribute("title")
    assert "60 samples, 60.0% of the kernel's; in 50.0% nothing was issued" in title
    assert "100.0% long_scoreboard" in title


def test_a_line_lights_its_instructions_and_an_instruction_its_lines(visit: Opener, inlined: Path) -> None:
    seen = visit(inlined, "#view=code")
    ready(seen, SOURCES)
    line(seen, SOURCES, "3").hover()
    assert (lit(seen, SOURCES), lit(seen, SASS)) == (["3"], ["0020", "0030"])
    line(seen, SASS, "0010").hover()
    assert (lit(seen, SOURCES), lit(seen, SASS)) == (["2"], ["0010"])
    line(seen, SASS, "0040").hover()  # it has no line
    assert (lit(seen, SOURCES), lit(seen, SASS)) == ([], ["0040"])
    seen.page.locator(".kernel-title").hover()
    assert (lit(seen, SOURCES), lit(seen, SASS)) == ([], [])


def test_a_click_holds_a_line_until_it_is_let_go(visit: Opener, inlined: Path) -> None:
    seen = visit(inlined, "#view=code")
    ready(seen, SOURCES)
    line(seen, SOURCES, "2").click()
    line(seen, SASS, "0030").hover()
    assert lit(seen, SASS) == ["0010"]
    assert seen.state() == {"view": "code", "kernel": "attend", "place": f"{CODE}:2"}
    seen.press("Escape")
    assert lit(seen, SASS) == []
    line(seen, SASS, "0020").click()
    assert lit(seen, SOURCES) == ["3"]
    line(seen, SASS, "0020").click()
    seen.page.locator(".kernel-title").hover()
    assert lit(seen, SOURCES) == []


def test_a_place_in_the_address_is_held_and_lit(visit: Opener, inlined: Path) -> None:
    seen = visit(inlined, f"#view=code&kernel=attend&place={CODE}:3")
    ready(seen, SOURCES)
    seen.wait("document.querySelectorAll('.pane[aria-label=Source] .line.cursor').length === 1")
    assert (lit(seen, SOURCES), lit(seen, SASS)) == (["3"], ["0020", "0030"])


def test_keys_go_from_the_hottest_to_the_next(visit: Opener, inlined: Path) -> None:
    """The instructions have 10, 60, 20 and 10 samples."""
    seen = visit(inlined, "#view=code")
    ready(seen, SOURCES)
    line(seen, SASS, "0040").click()
    offsets = []
    for key in "nnnnnp":
        seen.press(key)
        offsets += lit(seen, SASS)
    assert offsets == ["0010", "0020", "0000", "0030", "0010", "0030"]


def test_code_that_was_inlined_counts_where_it_came_in(visit: Opener, inlined: Path) -> None:
    seen = visit(inlined, "#view=code")
    ready(seen, SOURCES)
    shares = {name: share for name, share, _ in rows(seen, SOURCES)}
    assert shares == {"1": "10.0%", "2": "60.0%", "3": "10.0%", "4": ""}
    assert line(seen, SOURCES, "2").locator(".share.inlined").count() == 1
    assert "with the code inlined here: 30.0%" in line(seen, SOURCES, "3").locator(".share").get_attribute("title")
    assert [text.split() for text in seen.texts(".file-tab")] == [["attn.py", "20.0%"], ["standard.py", "80.0%"]]


def test_a_file_whose_text_is_missing_has_its_lines_and_says_why(visit: Opener, inlined: Path) -> None:
    seen = visit(inlined, "#view=code")
    ready(seen, SOURCES)
    seen.page.locator(".file-tab", has_text="standard.py").click()
    seen.wait("document.querySelector('.missing:not([hidden])') !== null")
    assert "not in the profile" in seen.text(".missing")
    assert rows(seen, SOURCES) == [["7", "80.0%", "(its text is not in the profile)"]]
    line(seen, SOURCES, "7").hover()
    assert lit(seen, SASS) == ["0010", "0020"]
    assert seen.state()["file"] == LIBRARY


def test_kernels_are_listed_hottest_first_filtered_and_walked_through(visit: Opener, inlined: Path) -> None:
    seen = visit(inlined, "#view=code")
    ready(seen)
    assert [text.split() for text in seen.texts(".kernel-name")] == [["attend", "95.2%"], ["late", "4.8%"], ["cold", "none"]]
    seen.press("]")
    seen.wait("document.querySelector('.kernel-title').textContent === 'late'")
    assert seen.state() == {"view": "code", "kernel": "late"}
    seen.press("[")
    seen.wait("document.querySelector('.kernel-title').textContent === 'attend'")
    seen.page.fill(".code aside input", "LAT")
    assert seen.texts(".kernel-name .bar-name") == ["late"]


def test_a_kernel_says_what_it_is(visit: Opener, inlined: Path) -> None:
    seen = visit(inlined, "#view=code&kernel=attend")
    ready(seen)
    facts = seen.text(".kernel-head .facts").replace("\n", " ")
    for part in ("launches 1", "GPU time 1 ms", "samples 100 (95.2%)", "grid 8", "block 128", "registers 32"):
        assert part in facts
    assert seen.text(".full-name") == "attend<float, 64>(float*)"


def test_a_kernel_that_was_never_met_says_so(visit: Opener, inlined: Path) -> None:
    seen = visit(inlined, "#view=code&kernel=cold")
    seen.wait("document.querySelector('.kernel-title')?.textContent === 'cold'")
    assert seen.text(".kernel-head .degraded").startswith("no samples: sampling never hit this kernel")
    assert seen.page.locator(".pane").count() == 0


@pytest.mark.parametrize(
    ("code", "message", "panes"),
    [
        ((0, "EXIT", (), {"wait": 5}), "no source lines: the kernel was compiled without a line table", [SASS]),
        ((0, "", (("k", CODE, 1),), {"wait": 5}), "no SASS: nvdisasm was not found", [SOURCES, SASS]),
    ],
)
def test_what_is_missing_is_one_line(visit: Opener, tmp_path: Path, code: Any, message: str, panes: list[str]) -> None:
    write(with_symbols(sampled(tmp_path / "p.aiflame", Sampled("k", [code]), sources={CODE: "one\n"})), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", "#view=code")
    ready(seen)
    assert [text.startswith(message) for text in seen.texts(".kernel-head .degraded")] == [True]
    assert [pane for pane in (SOURCES, SASS) if seen.page.locator(pane).count()] == panes


def test_without_samples_at_all_kernels_are_listed_by_time(visit: Opener, tmp_path: Path) -> None:
    write(with_symbols(sampled(tmp_path / "p.aiflame", Sampled("short"), Sampled("long", launches=3))), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", "#view=code")
    seen.wait("document.querySelectorAll('.kernel-name').length === 2")
    assert [text.split() for text in seen.texts(".kernel-name")] == [["long", "75.0%"], ["short", "25.0%"]]
    assert "no kernel has samples" in seen.text(".kernel-names p")


def test_a_kernel_beyond_those_in_the_file_tells_where_it_is(visit: Opener, tmp_path: Path) -> None:
    many = [Sampled(f"kernel_{at}", each_ns=1000 - at) for at in range(MOST_IN_A_FILE + 1)]
    write(with_symbols(sampled(tmp_path / "p.aiflame", *many)), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", f"#view=code&kernel=kernel_{MOST_IN_A_FILE}")
    seen.wait("document.querySelector('.kernel-room .note') !== null")
    assert f"aiflame annotate 'kernel_{MOST_IN_A_FILE}'" in seen.text(".kernel-room .note")


def test_a_compiled_kernel_shows_its_ops_and_its_kept_files(visit: Opener, tmp_path: Path) -> None:
    origins = '{"version": 1, "nodes": {"n": {"op": "aten.gelu.default"}}}'
    profile = sealed(
        tmp_path / "p.aiflame",
        kernels=[{"shape": 1, "start_ns": 1, "end_ns": 1000, "api": 1}],
        kernel_shapes=[{"name": "triton_poi_fused_gelu_0", "api": 1}],
        kernel_origins=[{"kernel": "triton_poi_fused_gelu_0", "compiler": "inductor", "module": "g", "origins": origins}],
        kept_files=[{"kernel": "triton_poi_fused_gelu_0", "module": "g", "kind": "ttir", "file": "k.ttir"}],
    )
    (profile.path / "kept").mkdir()
    (profile.path / "kept" / "k.ttir").write_text("module {\n  tt.load\n}\n")
    write(with_symbols(profile), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", "#view=code")
    ready(seen, SOURCES)
    assert [text for _, _, text in rows(seen, SOURCES)] == ["module {", "  tt.load", "}"]
    assert seen.texts(".file-tab") == ["k.ttir"]


def test_instructions_are_copied_with_their_shares(visit: Opener, report: Path) -> None:
    seen = visit(report, "#view=code", before=COPIED)
    ready(seen)
    seen.press("c")
    seen.wait("window.copied !== undefined")
    assert seen.page.evaluate("window.copied").splitlines()[:4] == [
        "sgemm",
        "0000\t0.00%\tS2R R0, SR_TID.X",
        "0010\t10.0%\tFADD R1, R1, R2",
        "0030\t60.0%\tLDG.E R2, [R4.64]",
    ]


def test_of_long_code_only_what_is_in_sight_is_in_the_page_and_the_hottest_is_shown_first(visit: Opener, tmp_path: Path) -> None:
    hot = 7000
    code = [(16 * at, f"FADD R{at}, R1, R2", (("k", CODE, at + 1),), {"wait": 500 if at == hot else 1}) for at in range(10_000)]
    text = "\n".join(f"line {at + 1}" for at in range(10_000))
    write(with_symbols(sampled(tmp_path / "p.aiflame", Sampled("k", code), sources={CODE: text})), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", "#view=code")
    seen.wait(
        "[...document.querySelectorAll('.pane .line')].filter((line) => line.querySelector('.share').textContent === '4.8%').length === 2"
    )
    for pane, name in ((SOURCES, str(hot + 1)), (SASS, f"{16 * hot:x}")):
        assert seen.page.locator(f"{pane} .line").count() < 200
        box, room = line(seen, pane, name).bounding_box(), seen.page.locator(f"{pane} .listing").bounding_box()
        assert room["y"] <= box["y"] <= room["y"] + room["height"]


def test_in_a_narrow_window_the_panes_are_one_above_the_other(visit: Opener, report: Path) -> None:
    seen = visit(report, "#view=code", viewport={"width": 500, "height": 900})
    ready(seen, SOURCES)
    above, below = (seen.page.locator(pane).bounding_box() for pane in (SOURCES, SASS))
    assert above["y"] + above["height"] <= below["y"] + 1
    assert above["width"] > 480


def test_the_finding_of_a_stall_leads_to_its_line(visit: Opener, report: Path) -> None:
    """`Evidence(view="kernels", kernel=…, place=…)` as the first screen passes it on."""
    seen = visit(report)
    seen.page.evaluate(f"location.hash = '#view=code&kernel=sgemm&place={SOURCE}:4'")
    ready(seen, SOURCES)
    seen.wait("document.querySelectorAll('.pane[aria-label=Source] .line.lit').length === 1")
    assert lit(seen, SOURCES) == ["4"]
