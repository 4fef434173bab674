"""Kinds of frames and slices in the report's scripts are those of Python."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from trees import tree

from aiflame.attribute.timeline.tables import SliceKind
from aiflame.attribute.tree import Frame
from aiflame.exchange.writers import collapsed
from aiflame.exchange.writers import csv as csv_export
from aiflame.profile.schema.kinds import MARKS, PYTHON_MARK, Kind
from aiflame.render.bundle import WEB
from aiflame.render.colors import TONES

KINDS = WEB / "kinds.js"
WRITER = Path(__file__).parents[3] / "scripts" / "web_kinds.py"
NODE = shutil.which("node")


def run(folder: Path, script: str) -> Any:
    """The JSON that a script prints; it imports the page's modules from `./web/`."""
    shutil.copytree(WEB, folder / "web")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "ask.js").write_text(script)
    process = subprocess.run([str(NODE), "ask.js"], cwd=folder, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(process.stdout)


def test_the_module_is_the_one_that_its_writer_writes() -> None:
    written = subprocess.run([sys.executable, WRITER], capture_output=True, text=True, check=True, timeout=120).stdout
    assert KINDS.read_text(encoding="utf-8") == written, f"python scripts/web_kinds.py > {KINDS.relative_to(WRITER.parents[1])}"


def test_no_other_script_numbers_kinds_by_hand() -> None:
    """A script that needs a kind imports it: `kind === 8` and `palette[18]` are numbers that nobody compares."""
    by_hand = re.compile(
        r"schema/kinds\.py|\b[kK]inds?\b[\w.)\]]* (?:[!=]==|<|>=) [1-9]|\bpalette\[\d|\bkind of \[\d|\bnew Set\(\[\d", re.MULTILINE
    )
    scripts = [path for path in WEB.rglob("*.js") if path != KINDS]
    assert {path.name: number[0] for path in scripts if (number := by_hand.search(path.read_text(encoding="utf-8")))} == {}


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_page_has_the_kinds_of_frames_and_slices(tmp_path: Path) -> None:
    script = 'import { KIND, KIND_ORDER, SLICE } from "./web/kinds.js";\nconsole.log(JSON.stringify([KIND, SLICE, KIND_ORDER]));\n'
    frames, slices, order = run(tmp_path, script)
    assert frames == {kind.name: int(kind) for kind in Kind}
    assert slices == {kind.name: int(kind) for kind in SliceKind}
    assert order == [int(kind) for kind in TONES]
    assert sorted(order) == sorted(Kind)


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_page_copies_stacks_with_the_marks_of_collapsed_stacks(tmp_path: Path) -> None:
    script = """
        import { collapsed } from "./web/flame/collapsed_stack.js";
        const model = { stack: (node) => [node], kind: (node) => node, name: () => "f", width: new Array(100).fill(7) };
        console.log(JSON.stringify(Array.from({ length: KINDS }, (_, kind) => collapsed(model, kind))));
    """
    copied = run(tmp_path, script.replace("KINDS", str(len(Kind))))
    assert copied == [f"{PYTHON_MARK if kind is Kind.PYTHON else ''}f{MARKS.get(kind, '')} 7" for kind in Kind]


HOSTILE = ["=1+1", " =1+1", "\uff1d1+1", "\n=1+1", "a\x1b[31mb", "m\u202e;x\x07", "a,b", 'a"b', " a", "-1", "\ufeff@x", ""]


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_page_writes_csv_as_export_does(tmp_path: Path) -> None:
    script = f"""
        import {{ csvOf }} from "./web/report/worker/csv.js";
        console.log(JSON.stringify(csvOf(["text", "number"], {json.dumps(HOSTILE)}.map((text) => [text, 7]))));
    """
    file = io.StringIO()
    csv_export.write(pl.DataFrame({"text": HOSTILE, "number": [7] * len(HOSTILE)}), file)
    assert list(csv.reader(io.StringIO(run(tmp_path, script)))) == list(csv.reader(io.StringIO(file.getvalue())))


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_page_copies_names_as_export_writes_them(tmp_path: Path) -> None:
    script = f"""
        import {{ collapsed }} from "./web/flame/collapsed_stack.js";
        const names = {json.dumps(HOSTILE)};
        const model = {{ stack: (node) => [node], kind: () => {int(Kind.C)}, name: (node) => names[node], width: names.map(() => 7) }};
        console.log(JSON.stringify(names.map((_, node) => collapsed(model, node))));
    """
    file = io.StringIO()
    whole = tree(*(((Frame(name, Kind.C),), 7) for name in HOSTILE))
    collapsed.write(whole, whole.metrics[0].name, file)
    assert {line.rpartition(" ")[0] for line in run(tmp_path, script)} == {line.rpartition(" ")[0] for line in file.getvalue().splitlines()}


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_small_values_of_counters_keep_three_digits(tmp_path: Path) -> None:
    values = {"0": 0, "0.0003": 3e-4, "0.00049": 4.9e-4, "-0.0151": -0.0151, "0.5": 0.5, "1.25": 1.2504, "1,000": 999.6}
    script = f"""
        import {{ counted }} from "./web/text.js";
        console.log(JSON.stringify({json.dumps(list(values.values()))}.map((value) => counted(value, "%"))));
    """
    assert run(tmp_path, script) == [f"{text}%" for text in values]


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_a_frame_inside_a_kernel_knows_its_kernel(tmp_path: Path) -> None:
    """A parent for each: a process, then a kernel, and in it each kind of frame that lies in kernels."""
    inside = [Kind.GPU_SCOPE, Kind.GPU_SCOPE, Kind.GPU_LINE, Kind.GPU_INSTRUCTION, Kind.GPU_OFFSET, Kind.GPU_STALL]
    kinds = [Kind.ROOT, Kind.PROCESS, Kind.GPU_KERNEL, *inside]
    script = """
        import { kernelOf } from "./web/report/page/flame/menu.js";
        const kinds = KINDS;
        const model = { kind: (node) => kinds[node], parent: kinds.map((_, node) => node - 1), name: (node) => `frame ${node}` };
        console.log(JSON.stringify(kinds.map((_, node) => kernelOf(model, node))));
    """
    kernels = run(tmp_path, script.replace("KINDS", str([int(kind) for kind in kinds])))
    assert kernels == ["", "", *(["frame 2"] * (len(kinds) - 2))]
