"""The answer of a gate in Markdown and JUnit: names that a stranger chose stay text."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from simulated_runs import SLOW, simulated

from aiflame.analyze.gate.gate import Gate, gate
from aiflame.analyze.gate.run import Place, Run
from aiflame.analyze.gate.sentence import Name
from aiflame.analyze.gate.thresholds import Thresholds
from aiflame.render.gate.junit import junit
from aiflame.render.gate.markdown import escaped, markdown
from aiflame.render.terminal.gate_table import print_gate

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]><failure/>",
    "a | b\n| --- |\n# heading",
    "`code` **bold** _em_ [link](http://evil.example) ![i](x)",
    "@everyone #1 https://evil.example www.evil.example",
    "&lt;b&gt; &#60;",
    "\x1b[31mred\x00\u202egnp.exe\ud800\ufffe",
    "</code></details>",
    "\\",
)


def answer(name: str = SLOW, slower: float = 0.5) -> Gate:
    """Kernel 0 under another name takes longer."""
    chance = np.random.default_rng(1)
    base = [_named(simulated(chance, 0.01), name) for _ in range(5)]
    return gate(base, [_named(simulated(chance, 0.01, slower), name) for _ in range(5)], Thresholds.of())


def _named(run: Run, name: str) -> Run:
    values = {(metric, name if item == SLOW else item): value for (metric, item), value in run.values.items()}
    return replace(run, name=name, values=values, places={("kernel", name): Place(name, f"{name}:1")})


@pytest.mark.parametrize("name", HOSTILE)
def test_junit_is_xml_with_the_name_as_text(name: str) -> None:
    suite = ElementTree.fromstring(junit(answer(name)).encode()).find("testsuite")
    assert suite is not None
    assert {child.tag for child in suite} == {"properties", "testcase"}
    cases = suite.findall("testcase")
    failed = [case for case in cases if case.find("failure") is not None]
    assert (suite.get("tests"), suite.get("failures")) == (str(len(cases)), str(len(failed)))
    readable = re.sub(r"[\x00-\x1f\x7f\u202e\ud800\ufffe]", "", name)
    (kernel,) = [case for case in failed if case.get("classname") == "aiflame.kernel"]
    assert re.sub("[\ufffd?]", "", str(kernel.get("name"))) == readable
    (failure,) = kernel
    assert not list(failure)
    assert "launched mostly at" in str(failure.text)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_in_markdown_are_code_without_markup(name: str) -> None:
    text = markdown(answer(name))
    inside = re.findall(r"<code>(.*?)</code>", text)
    assert any(f"{name[:1]}" in html.unescape(one) or "\ufffd" in one for one in inside)
    assert set(re.findall(r"</?(\w+)", text)) == {"code", "details", "summary"}
    for one in inside:
        assert re.fullmatch(r"(?:[A-Za-z0-9 /,-]|&#\d+;|[^\x00-\x7f])*", one)
    assert text.count("<details>") == text.count("</details>") == 1
    outside = re.sub(r"<code>.*?</code>", "", text)
    assert not re.search(r"@|https?:|www\.|\[|\x1b", outside)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {row.count("|") for row in rows} == {8}


def test_markdown_begins_with_the_slower_functions() -> None:
    lines = markdown(answer()).splitlines()
    assert lines[0] == "## 🔴 aiflame gate: 1 regression" or re.fullmatch("## 🔴 aiflame gate: [0-9]+ regressions", lines[0])
    assert lines.index("### Slower") < next(number for number, line in enumerate(lines) if "<details>" in line)
    assert any(line.startswith("- Kernel <code>kernel 0</code> takes ") for line in lines)


def test_without_a_regression_nothing_has_failed() -> None:
    same = answer(slower=0.0)
    assert markdown(same).splitlines()[0] == "## 🟢 aiflame gate: no regression"
    assert ElementTree.fromstring(junit(same).encode()).findall(".//failure") == []


def test_a_name_is_escaped_and_our_words_are_not() -> None:
    assert escaped(("Kernel ", Name("a_b<c>"), " takes 5%.")) == "Kernel <code>a&#95;b&#60;c&#62;</code> takes 5%."


@pytest.mark.parametrize("width", [50, 80, 140])
def test_the_terminal_shows_no_control_character(width: int) -> None:
    console = Console(width=width, record=True)
    print_gate(answer(HOSTILE[7]), console)
    assert "regression" in console.export_text().splitlines()[-1]


def test_the_table_names_measures_in_a_narrow_terminal() -> None:
    console = Console(width=80, record=True)
    print_gate(answer(), console)
    lines = console.export_text().splitlines()
    assert any(line.rstrip().endswith("kernel kernel 0") for line in lines)
    assert max(map(len, lines)) <= 80
