"""The flame graph of a million distinct nodes in a browser: `aiflame report` beside d3-flame-graph and speedscope, in the same run.

    python benchmarks/profiles/report_million.py [--stacks 200000] [--rounds 3] [--npm FOLDER] [--chromium PROGRAM] [--output FILE]

All three are given the same tree (`sample_trees.many_stacks`): aiflame a sealed profile, from which `aiflame report` writes its one file,
opened from disk at the flame graph; the others, as their documentation has it, a file that they load from a server on loopback.
d3-flame-graph is given nested JSON, and `minFrameSize(1)` (without it, it makes an SVG element of every node); speedscope its own format,
in "left heavy", its view that merges stacks. Each is opened in a browser context of its own, in turn with the others.

`load` is from the navigation to the second animation frame after the graph is there. For a zoom and for a search, `longest_frame` is the
longest time between two animation frames from the input until nothing has been late for a second: a person feels it as stutter. On a
machine that others use, too, that is mostly the others: `longest_task_cpu`, the processor time of the longest task of the page's main
thread (of Chromium's trace), is the cost of a frame when nobody else wants the processor; `main_cpu` and `worker_cpu` are the processor
time of its threads in all. A tool that is not there after PATIENCE_S has failed, and is not tried again. The packages come from npm, into
FOLDER or a temporary one. The browser draws without a GPU: WebGL, which speedscope uses, and canvases are computed on the processor.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from flame import TICK_NS, write_profile

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "web"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))
from gpu_common import machine
from sample_trees import many_stacks

from aiflame.attribute.tree import Tree
from aiflame.exchange.writers import speedscope

RESULTS = Path(__file__).parents[1] / "results" / "report_million.json"
PEERS = ("d3", "d3-flame-graph", "speedscope")
TARGETS = {"file_mb": 25, "load_ms": 2000, "frame_ms": 100}
PATTERN = "method_77"
DEEP = 6
"""Level of the frame that is zoomed to: the widest child's widest child …"""
LATE_MS = 100
CALM_S = 1.0
PATIENCE_S = 200
TRACED = ["disabled-by-default-devtools.timeline"]
FLAGS = ("--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--no-first-run", "--disable-background-networking")

FRAMES = """() => {
  const seen = { at: [performance.now()], on: true };
  const next = () => { seen.at.push(performance.now()); if (seen.on) requestAnimationFrame(next); };
  requestAnimationFrame(next);
  window.measured = seen;
}"""
END_OF_FRAMES = "() => { const { at } = window.measured; window.measured.on = false; return [...at, performance.now()]; }"
SINCE = "() => performance.now() - window.measured.at.at(-1)"
LOADED = """(ready) => {
  addEventListener("error", (event) => (window.wentWrong = event.message ?? "something is missing"), true);
  const look = () => {
    if (ready()) requestAnimationFrame(() => requestAnimationFrame(() => { window.loadedAt = performance.now(); }));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
D3_PAGE = """<!doctype html><meta charset="utf-8"><title>d3-flame-graph</title>
<link rel="stylesheet" href="npm/d3-flame-graph/dist/d3-flamegraph.css"><div id="chart"></div>
<script src="npm/d3/dist/d3.min.js"></script><script src="npm/d3-flame-graph/dist/d3-flamegraph.umd.min.js"></script>
<script>
  const chart = flamegraph.default().width(innerWidth - 20).cellHeight(18).minFrameSize(1);
  d3.json("tree.json").then((data) => { d3.select("#chart").datum(data).call(chart); window.chartIsThere = true; });
</script>"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time, of Chromium's trace."""

    longest_task_cpu_ms: float
    main_cpu_ms: float
    worker_cpu_ms: float


@dataclass(frozen=True, slots=True)
class Action:
    longest_frame_ms: float
    cost: Cost


@dataclass(frozen=True, slots=True)
class Round:
    load_ms: float
    load: Cost
    zoom: Action
    search: Action
    heap_mb: float
    """The JavaScript heap of the page's main thread."""


@dataclass(frozen=True, slots=True)
class Tool:
    """How to use one of the three."""

    address: str
    ready: str
    """Script: whether the graph is there."""
    zoom: Callable[[Any], None]
    search: Callable[[Any], None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stacks", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--npm", type=Path, help="folder with node_modules that has the peers")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        packages = (options.npm or installed(work / "npm")) / "node_modules"
        (work / "npm-packages").mkdir()
        (work / "npm-packages" / "npm").symlink_to(packages.absolute())
        with get_context("spawn").Pool(1) as pool:
            sizes = pool.apply(prepare, (work, options.stacks))
        versions = {name: json.loads((packages / name / "package.json").read_text())["version"] for name in PEERS}
        runs = measured(work, options)
    report = {
        "machine": machine(),
        "browser": runs.pop("browser"),
        "failed": runs.pop("failed"),
        "peers": versions,
        "targets": TARGETS,
        **sizes,
        "median": {name: summary(rounds) for name, rounds in runs.items()},
        "all": {name: [asdict(one) for one in rounds] for name, rounds in runs.items()},
    }
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    for name, values in report["median"].items():
        print(f"{name:16}", "  ".join(f"{key} {value:.0f}" for key, value in values.items()))
    return 0


def installed(folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", *PEERS], check=True, stdout=subprocess.DEVNULL)
    return folder


def prepare(work: Path, stacks: int) -> dict[str, object]:
    """Writes the input of each tool; returns how large the tree and the files are."""
    served = work / "npm-packages"
    tree = in_ticks(many_stacks(stacks))
    write_profile(tree, work / "many.aiflame")
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "aiflame.cli.main", "report", str(work / "many.aiflame"), "-o", str(work / "many.html")], check=True
    )
    took = time.perf_counter() - began
    (served / "tree.json").write_text(nested(tree))
    (served / "d3.html").write_text(D3_PAGE)
    with (served / "tree.speedscope.json").open("w", encoding="utf-8") as file:
        speedscope.write(tree, "cpu-time", file)
    data = {"aiflame": work / "many.html", "d3-flame-graph": served / "tree.json", "speedscope": served / "tree.speedscope.json"}
    return {
        "stacks": stacks,
        "nodes": len(tree),
        "depth": int(tree.depths().max()),
        "report_seconds": round(took, 2),
        "file_mb": {name: round(file.stat().st_size / 1e6, 2) for name, file in data.items()},
        "gzipped_mb": {name: round(len(gzip.compress(file.read_bytes(), 6)) / 1e6, 2) for name, file in data.items()},
    }


def in_ticks(tree: Tree) -> Tree:
    """Its values as a profile has them, so that all three are given the same."""
    own = tree.values["cpu-time"]
    ticks = np.where(own > 0, np.clip(own // TICK_NS, 1, 0xFFFF), 0) * TICK_NS
    return dataclasses.replace(tree, values={"cpu-time": ticks})


def nested(tree: Tree) -> str:
    """{name, value, children}, written in depth-first order: it is too deep for no recursion, and too large for dictionaries."""
    name = [json.dumps(text) for text in tree.frames["name"].to_list()]
    total, frame, parent = tree.totals("cpu-time").tolist(), tree.frame.tolist(), tree.parent.tolist()
    children: list[list[int]] = [[] for _ in parent]
    for node, above in enumerate(parent[1:], 1):
        children[above].append(node)
    pieces: list[str] = []
    waiting: list[tuple[int, str]] = [(0, "")]
    while waiting:
        node, before = waiting.pop()
        if node < 0:
            pieces.append("]}")
            continue
        own = f'{before}{{"name":{name[frame[node]] if node else json.dumps("all")},"value":{total[node]}'
        if not children[node]:
            pieces.append(own + "}")
            continue
        pieces.append(own + ',"children":[')
        waiting.append((-1, ""))
        waiting += [(child, "," if place else "") for place, child in reversed(list(enumerate(children[node])))]
    return "".join(pieces)


def measured(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    runs: dict[str, Any] = {"failed": []}
    with sync_playwright() as driver, served(work / "npm-packages") as address:
        browser = driver.chromium.launch(executable_path=options.chromium, args=list(FLAGS))
        runs["browser"] = f"Chromium {browser.version}, headless"
        tools = {"aiflame": ours(work / "many.html"), "d3-flame-graph": d3(address), "speedscope": speedscope_app(address)}
        for _ in range(options.rounds):
            for name in list(tools):
                outcome = attempt(browser, tools[name])
                print(name, outcome, file=sys.stderr, flush=True)
                if isinstance(outcome, Round):
                    runs.setdefault(name, []).append(outcome)
                else:
                    runs["failed"].append(f"{name}: {outcome}")
                    del tools[name]
        browser.close()
    return runs


def ours(file: Path) -> Tool:
    def zoom(page: Any) -> None:
        x, y = page.evaluate(f"""() => {{
          const {{ flame }} = document.querySelector(".flame"), {{ chart, model }} = flame;
          let node = 0;
          for (let level = 0; level < {DEEP}; level++) node = model.widestChild(node);
          const box = chart.canvas.getBoundingClientRect(), [from, to] = chart.span(node);
          return [box.x + (from + to) / 2, box.y + chart.top(model.row(node)) + 8];
        }}""")
        page.mouse.click(x, y)

    def search(page: Any) -> None:
        page.click(".flame-search")
        page.keyboard.insert_text(PATTERN)

    there = "() => Boolean(document.documentElement.dataset.firstPaint)"
    return Tool(file.as_uri() + "#view=flame", there, zoom, search)


def d3(address: str) -> Tool:
    def zoom(page: Any) -> None:
        x, y = page.evaluate(f"""() => {{
          let node = d3.select("#chart").datum();
          for (let level = 0; level < {DEEP}; level++) node = node.children.reduce((best, one) => (one.value > best.value ? one : best));
          const found = d3.selectAll("#chart g.frame").nodes().find((one) => one.__data__ === node);
          const box = found.getBoundingClientRect();
          return [box.x + box.width / 2, box.y + 8];
        }}""")
        page.mouse.click(x, y)

    def search(page: Any) -> None:
        page.evaluate(f'() => void setTimeout(() => chart.search("{PATTERN}"))')

    return Tool(f"{address}/d3.html", "() => Boolean(window.chartIsThere)", zoom, search)


def speedscope_app(address: str) -> Tool:
    """In its "left heavy" view, the widest child of each frame stands at the left."""

    def zoom(page: Any) -> None:
        page.mouse.dblclick(8, 200)

    def search(page: Any) -> None:
        page.keyboard.press("Control+f")
        page.keyboard.insert_text(PATTERN)

    there = '() => document.querySelectorAll("canvas").length > 1'
    where = f"{address}/npm/speedscope/dist/release/index.html#profileURL={address}/tree.speedscope.json&view=left-heavy"
    return Tool(where, there, zoom, search)


def attempt(browser: Any, tool: Tool) -> Round | str:
    """The error, where one occurs."""
    from playwright.sync_api import Error

    try:
        return one_round(browser, tool)
    except (AssertionError, Error) as error:
        return str(error).splitlines()[0]


def one_round(browser: Any, tool: Tool) -> Round:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    context.set_default_timeout(PATIENCE_S * 1000)
    try:
        page = context.new_page()
        page.add_init_script(f"({LOADED})({tool.ready})")
        browser.start_tracing(page=page, categories=TRACED)
        page.goto(tool.address, wait_until="commit")
        page.wait_for_function("() => window.loadedAt || window.wentWrong", polling=200)
        assert not page.evaluate("() => window.wentWrong"), page.evaluate("() => window.wentWrong")
        load = page.evaluate("() => window.loadedAt")
        page.wait_for_timeout(500)  # threads hand their events over now and then
        cost = traced(browser)
        zoom, search = (action(browser, page, act) for act in (tool.zoom, tool.search))
        heap = page.evaluate("() => performance.memory.usedJSHeapSize") / 1e6
    finally:
        with suppress(Exception):
            browser.stop_tracing()
        context.close()
    return Round(round(load), cost, zoom, search, round(heap))


def action(browser: Any, page: Any, act: Callable[[Any], None]) -> Action:
    before = page.screenshot()
    browser.start_tracing(page=page, categories=TRACED)
    page.evaluate(FRAMES)
    act(page)
    calm = began = time.monotonic()
    while time.monotonic() - calm < CALM_S and time.monotonic() - began < PATIENCE_S / 4:
        asked = time.monotonic()
        page.wait_for_timeout(100)
        if page.evaluate(SINCE) > LATE_MS or time.monotonic() - asked > 0.1 + LATE_MS / 1000:
            calm = time.monotonic()
    at = page.evaluate(END_OF_FRAMES)
    took = [after - before for before, after in pairwise(at)]
    cost = traced(browser)
    assert page.screenshot() != before, "the picture is as before"
    return Action(round(max(took), 1), cost)


def traced(browser: Any) -> Cost:
    """The cost of the process whose main thread did most."""
    events = json.loads(browser.stop_tracing())["traceEvents"]
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    main: dict[int, list[float]] = {}
    worker: dict[int, float] = {}
    for one in events:
        name = names.get((one["pid"], one["tid"]), "")
        if one["name"] != "RunTask" or "tdur" not in one:
            continue
        if name == "CrRendererMain":
            main.setdefault(one["pid"], []).append(one["tdur"] / 1000)
        elif name.startswith("DedicatedWorker"):
            worker[one["pid"]] = worker.get(one["pid"], 0.0) + one["tdur"] / 1000
    if not main:
        return Cost(0, 0, 0)
    most = max(main, key=lambda pid: sum(main[pid]))
    return Cost(round(max(main[most]), 1), round(sum(main[most]), 1), round(worker.get(most, 0.0), 1))


def summary(rounds: list[Round]) -> dict[str, float]:
    """Medians."""
    of: dict[str, Callable[[Round], float]] = {
        "load_ms": lambda one: one.load_ms,
        "load_main_cpu_ms": lambda one: one.load.main_cpu_ms,
        "load_worker_cpu_ms": lambda one: one.load.worker_cpu_ms,
        "zoom_longest_frame_ms": lambda one: one.zoom.longest_frame_ms,
        "zoom_longest_task_cpu_ms": lambda one: one.zoom.cost.longest_task_cpu_ms,
        "search_longest_frame_ms": lambda one: one.search.longest_frame_ms,
        "search_longest_task_cpu_ms": lambda one: one.search.cost.longest_task_cpu_ms,
        "heap_mb": lambda one: one.heap_mb,
    }
    return {name: round(statistics.median(map(value, rounds)), 1) for name, value in of.items()}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *given: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
