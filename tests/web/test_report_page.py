"""The report's page in a real browser: its first screen answers the question, its shell holds, nothing gets out of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from exported_profiles import through_kineto
from profiles import sealed
from report_profiles import HOSTILE, SLOWEST, STEPS, hostile, training
from report_visits import Opener, Visit

import aiflame
from aiflame.profile.tables.store import Profile
from aiflame.render.report.document import Report, write
from aiflame.render.report.server import Server

VIEWS = ("overview", "flame", "scope", "timeline", "code", "tables")
TITLES = ("Overview", "Flame graph", "FlameScope", "Timeline", "Source and SASS", "Tables")


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return training(tmp_path_factory.mktemp("training"))


@pytest.fixture(scope="module")
def report(profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "my report.html"
    write(profile, path)
    return path


@pytest.fixture(scope="module")
def imported(profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the same training, imported."""
    folder = tmp_path_factory.mktemp("imported")
    write(through_kineto(profile, folder), folder / "r.html")
    return folder / "r.html"


@pytest.fixture(params=["recorded", "imported"])
def either(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue({"recorded": "report", "imported": "imported"}[request.param])
    return path


@pytest.fixture(scope="module")
def wild(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wild")
    write(hostile(folder), folder / "r.html", title=HOSTILE[0])
    return folder / "r.html"


def share(visit: Visit, selector: str) -> float:
    """An element's share of its parent's width."""
    width: float = visit.page.eval_on_selector(
        selector, "one => one.getBoundingClientRect().width / one.parentElement.getBoundingClientRect().width"
    )
    return width


def test_the_first_screen_says_what_ran(visit: Opener, report: Path) -> None:
    seen = visit(report)
    assert seen.text(".command") == "python train.py"
    facts = seen.text(".ran .facts")
    for part in ("took\n5 s", "device\nNVIDIA H200", "1 process, 1 thread", "box, 64 cores", "GPU time"):
        assert part in facts
    assert seen.text(".ran .scope").startswith("Steps 1 to 5: ")
    assert seen.text(".ran .scope").endswith("Show the whole run")
    assert seen.page.title() == "p.aiflame"
    assert seen.page.locator(".degraded").count() == 0


def test_it_says_how_busy_the_device_was(visit: Opener, either: Path) -> None:
    """70 µs of each step, of 100 or 300; the last ends with its kernels, after 75. In steps without the first one, then in all."""
    seen = visit(either)
    in_steps, whole = 70 * (STEPS - 1) / (100 * (STEPS - 3) + 300 + 75), 70 * STEPS / (100 * (STEPS - 2) + 300 + 75)
    for place, busy in enumerate((in_steps, whole)):
        bar = f".device >> nth={place} >> .stack"
        assert share(seen, f"{bar} >> .busy") == pytest.approx(busy, abs=0.01)
        assert share(seen, f"{bar} >> .idle") == pytest.approx(1 - busy, abs=0.01)
        assert f"busy {100 * busy:.1f}%" in seen.page.locator(".device .shares").nth(place).inner_text()


def test_steps_are_drawn_and_the_slowest_is_marked(visit: Opener, either: Path) -> None:
    seen = visit(either)
    assert seen.page.locator(".step").count() == STEPS
    assert seen.page.locator(".step").nth(SLOWEST).get_attribute("class") == "step slowest"
    assert f"Step {SLOWEST}, " in seen.text(".mark")
    seen.click(".mark")
    assert seen.state() == {"view": "flame", "by": "step", "search": f"^Step\\.{SLOWEST}$"}


def test_each_finding_leads_to_its_evidence(visit: Opener, either: Path) -> None:
    seen = visit(either)
    findings = seen.page.evaluate("JSON.parse(document.getElementById('summary').textContent).findings")
    assert 1 <= len(findings) <= 3
    for number, finding in enumerate(findings):
        seen.open()
        row = seen.page.locator(".finding").nth(number)
        assert row.locator("p").inner_text() == finding["sentence"]
        assert row.locator(".number").inner_text() == f"{round(finding['share'] * 100)}%"
        row.locator(".button").click()
        view = {"kernels": "code"}.get(finding["view"]["view"], finding["view"]["view"])
        seen.wait(f"document.querySelector('.view:not([hidden])').dataset.of === '{view}'")
        assert seen.state()["view"] == view


def test_a_finding_about_a_step_leads_to_its_moment_in_the_timeline(visit: Opener, either: Path) -> None:
    """The slow one lasts from the first kernel of it to the first of the next."""
    seen = visit(either)
    seen.page.locator(".finding", has_text=f"Step {SLOWEST} took 300 µs").locator(".button").click()
    seen.wait("location.hash.includes('&time=')")
    begin, end = map(int, seen.state()["time"].split("-"))
    assert end - begin == 300_000
    assert "clock" not in seen.state()


def test_bars_of_phases_and_layers_lead_to_the_flame_graph_grouped_so(visit: Opener, either: Path) -> None:
    seen = visit(either)
    assert seen.texts(".panel h2") == ["By phase GPU time", "By layer GPU time", "By kernel GPU time"]
    row = seen.page.locator(".panel", has_text="By layer").locator(".bar-row").first
    assert row.inner_text().split() == ["layers.*.attn", "100.0%", "350", "µs"]
    row.click()
    assert seen.state() == {"view": "flame", "metric": "gpu-time", "by": "layer", "search": "^attn$"}
    seen.page.go_back()
    seen.page.locator(".panel", has_text="By phase").locator(".bar-row", has_text="Forward").click()
    assert seen.state() == {"view": "flame", "metric": "gpu-time", "by": "phase", "search": "^Forward$"}
    seen.page.go_back()
    seen.page.locator(".panel", has_text="By kernel").locator(".more").click()
    assert seen.state() == {"view": "tables", "table": "kernels"}


def test_what_was_degraded_is_told(visit: Opener, wild: Path) -> None:
    seen = visit(wild)
    assert "things to know about this recording: The recording did not see the program's end" in seen.text(".degraded summary")
    seen.click(".degraded summary")
    assert seen.page.locator(".degraded li").count() == 1 + len(HOSTILE)


def test_a_profile_with_nothing_to_say_says_so_calmly(visit: Opener, tmp_path: Path) -> None:
    sealed(tmp_path / "empty.aiflame")
    write(aiflame.open(tmp_path / "empty.aiflame").store, tmp_path / "r.html")
    seen = visit(tmp_path / "r.html")
    assert "Nothing stands out" in seen.text(".calm")
    for key in "456":
        seen.press(key)
        seen.wait("document.querySelector('.view:not([hidden])').innerText.length > 10")


@pytest.mark.parametrize(("key", "name"), [(str(place + 1), name) for place, name in enumerate(VIEWS)])
def test_a_key_shows_each_view(visit: Opener, report: Path, key: str, name: str) -> None:
    seen = visit(report, "#view=tables" if name != "tables" else "")
    seen.press(key)
    assert (seen.view(), seen.state()["view"]) == (name, name)
    assert seen.text("nav a[aria-current]") == TITLES[VIEWS.index(name)]
    seen.page.go_back()
    assert seen.view() == ("tables" if name != "tables" else "overview")


def test_a_link_to_a_view_opens_it(visit: Opener, either: Path) -> None:
    seen = visit(either, "#view=tables&table=phases")
    assert seen.text(".table-name[aria-current]").startswith("Phases")


def test_keys_are_listed_and_those_of_the_view(visit: Opener, report: Path) -> None:
    seen = visit(report, "#view=code")
    seen.press("?")
    text = seen.text("dialog.help")
    assert [title for title in TITLES if title not in text] == []
    assert "the next hottest" in text
    seen.press("Escape")
    assert seen.page.locator("dialog[open]").count() == 0


def test_keys_do_not_act_while_typing(visit: Opener, either: Path) -> None:
    seen = visit(either, "#view=tables")
    seen.page.fill(".filter", "")
    seen.page.type(".filter", "1t?")
    assert (seen.view(), seen.page.input_value(".filter")) == ("tables", "1t?")


def test_light_and_dark_follow_the_system_until_chosen(visit: Opener, either: Path) -> None:
    seen = visit(either, color_scheme="dark")
    dark = seen.style("html", "backgroundColor")
    seen.page.emulate_media(color_scheme="light")
    light = seen.style("html", "backgroundColor")
    assert light != dark
    seen.press("t")
    assert seen.style("html", "backgroundColor") == dark
    seen.open()
    assert seen.style("html", "backgroundColor") == dark
    seen.click("#theme")
    assert seen.style("html", "backgroundColor") == light


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(visit: Opener, either: Path, theme: str) -> None:
    """WCAG AA: 4.5 to 1, for text on its background."""
    seen = visit(either, color_scheme=theme)
    low = seen.page.evaluate(
        """() => {
          const parse = (text) => text.match(/[\\d.]+/g).map(Number);
          const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
          const light = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
          const behind = (one) => {
            for (; one; one = one.parentElement) {
              const [red, green, blue, alpha = 1] = parse(getComputedStyle(one).backgroundColor);
              if (alpha === 1) return [red, green, blue];
            }
            return [255, 255, 255];
          };
          const found = [];
          for (const one of document.querySelectorAll("body *")) {
            const own = [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
            if (!own || !one.checkVisibility() || one.closest("script")) continue;
            const [high, low] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((a, b) => b - a);
            if ((high + 0.05) / (low + 0.05) < 4.5) found.push(`${one.className || one.tagName}: ${one.textContent.slice(0, 40)}`);
          }
          return found;
        }"""
    )
    assert low == []


@pytest.mark.parametrize("width", [380, 768, 1280, 1920])
@pytest.mark.parametrize("name", ["overview", "code", "tables"])
def test_nothing_is_wider_than_the_window(visit: Opener, report: Path, width: int, name: str) -> None:
    seen = visit(report, f"#view={name}", viewport={"width": width, "height": 720})
    seen.wait("document.querySelector('.view:not([hidden])').innerText.length > 40")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.eval_on_selector(".view:not([hidden])", "view => view.scrollWidth - view.clientWidth") <= 0


def test_printed_the_first_screen_is_whole(visit: Opener, either: Path) -> None:
    seen = visit(either, viewport={"width": 800, "height": 400})
    seen.page.emulate_media(media="print")
    assert seen.style("nav", "display") == "none"
    assert seen.page.eval_on_selector(".overview", "view => view.scrollHeight - view.clientHeight") <= 0
    assert seen.page.evaluate("document.body.scrollHeight") > 400


def test_without_scripts_it_says_why_it_is_empty(visit: Opener, report: Path) -> None:
    seen = visit(report, ready=False, java_script_enabled=False)
    assert "aiflame top" in seen.text("main")


ADD = "document.body.append(Object.assign(document.createElement('{}'), {{{}: '{}'}}))"
OUTSIDE = "https://example.invalid/"
REFUSED = {
    "an image": ADD.format("img", "src", OUTSIDE),
    "a request": f"fetch('{OUTSIDE}').catch(() => 0)",
    "a beacon": f"navigator.sendBeacon('{OUTSIDE}')",
    "a script": ADD.format("script", "src", OUTSIDE),
    "a script of its own": ADD.format("script", "textContent", "window.harmed = 1"),
    "a frame": ADD.format("iframe", "src", OUTSIDE),
    "a style": f"document.body.append(Object.assign(document.createElement('link'), {{rel: 'stylesheet', href: '{OUTSIDE}'}}))",
    "a style of its own": ADD.format("style", "textContent", "body { display: none }"),
    "a socket": "try { new WebSocket('wss://example.invalid/') } catch {}",
    "a form": ADD.format("form", "action", OUTSIDE) + "; document.forms[0].submit()",
}


@pytest.mark.parametrize("request_kind", list(REFUSED))
def test_nothing_that_gets_into_the_page_reaches_the_network(visit: Opener, report: Path, request_kind: str) -> None:
    seen = visit(report, expected=("Content Security Policy", "Failed to load", "Refused to"))
    violated = seen.page.evaluate(
        f"""() => new Promise((resolve) => {{
          document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
          setTimeout(() => resolve("allowed"), 5000);
          {REFUSED[request_kind]}
        }})"""
    )
    assert violated != "allowed"
    assert seen.page.evaluate("window.harmed") is None


@pytest.mark.parametrize("name", VIEWS)
def test_hostile_names_are_text_in_every_view(visit: Opener, wild: Path, name: str) -> None:
    seen = visit(wild, f"#view={name}")
    seen.wait("document.querySelector('.view:not([hidden])').innerText.length > 20")
    seen.page.wait_for_timeout(300)
    assert seen.page.evaluate("[window.harmed ?? 0, document.querySelectorAll('main script, main img, main iframe').length]") == [0, 0]
    assert seen.page.locator("#failed:not([hidden])").count() == 0
    assert seen.page.title() == HOSTILE[0]


def test_hostile_names_are_shown_as_they_are_but_for_what_rearranges_text(visit: Opener, wild: Path) -> None:
    seen = visit(wild)
    shown = seen.texts(".panel .bar-name")
    assert HOSTILE[0] in shown
    assert not [text for text in shown if any(sign in text for sign in "\x00\u202e\u2066")]


def damaged(report: Path, path: Path, name: str, data: str) -> Path:
    """The report with other data in a block; with none, without the block."""
    before, _, tail = report.read_text(encoding="utf-8").partition(f'<script type="text/plain" class="block" data-name="{name}">')
    _, _, after = tail.partition("</script>")
    block = f'<script type="text/plain" class="block" data-name="{name}">{data}</script>'
    path.write_text(f"{before}{block if data else ''}{after}")
    return path


UNREADABLE = [("", "this file has no data called tables"), ("AAAA", "tables is damaged"), ("?", "not correctly encoded")]


@pytest.mark.parametrize(("data", "message"), UNREADABLE)
def test_data_that_cannot_be_read_is_a_line_and_the_rest_works(
    visit: Opener, report: Path, tmp_path: Path, data: str, message: str
) -> None:
    seen = visit(damaged(report, tmp_path / "r.html", "tables", data), "#view=tables")
    assert message in seen.failed()
    seen.click("#failed button")
    assert seen.page.locator("#failed").is_hidden()
    seen.press("5")
    seen.wait("document.querySelector('.kernel-title')?.textContent === 'sgemm'")


def test_while_the_server_still_reads_the_page_says_so(visit: Opener, profile: Profile) -> None:
    report, may_go_on = Report(profile), threading.Event()
    first_screen = report.first_screen

    def slow() -> dict[str, object]:
        may_go_on.wait()
        return first_screen()

    report.first_screen = slow  # type: ignore[method-assign]
    with serving(report) as address:
        seen = visit(address, ready=False)
        seen.page.wait_for_selector("main .note", timeout=20_000)
        assert seen.text("main") == "Reading the profile…"
        seen.page.wait_for_selector("#progress:not([hidden])")
        may_go_on.set()
        seen.page.wait_for_selector("html[data-ready]")
        assert seen.text(".command") == "python train.py"
        seen.page.wait_for_selector("#progress", state="hidden")


def test_a_served_report_works_and_says_when_its_server_has_gone(visit: Opener, profile: Profile) -> None:
    with serving(Report(profile)) as address:
        seen = visit(address, "#view=tables", expected=("ERR_FAILED",))
        seen.wait("document.querySelectorAll('.grid .row').length > 1")
        seen.page.route("**/blocks/**", lambda route: route.abort())
        seen.press("5")
        assert "aiflame open does not answer any more" in seen.failed()


class serving:
    def __init__(self, report: Report) -> None:
        self._server = Server(report)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> str:
        self._thread.start()
        return self._server.address

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._thread.join()
        self._server.__exit__(None, None, None)
