"""No text of a profile, and no name of a file, controls the terminal that a command prints it on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hostile_texts import FILE_NAME, OBEYED, SEEN, on_a_terminal, profiles

from aiflame.cli.commands import COMMANDS as ALL_COMMANDS

COMMANDS: Mapping[str, list[list[str]]] = {
    "open": [["open", "{training}"], ["open", "{spool}", "--no-browser"], ["open", "{torn}"]],
    "report": [["report", "{training}", "-o", "{place}/r.html"], ["report", "{ranks}", "-o", "{place}/none/r.html"]],
    "flame": [
        ["flame", "{training}", "-o", "{place}/f.svg"],
        ["flame", "{training}", "--baseline", "{before}", "-o", "{place}/d.svg"],
        ["flame", "{training}", "-o", "{place}/none/f.svg"],
    ],
    "top": [
        *(["top", "{training}", "--by", by] for by in ("function", "line", "module", "layer", "step", "kernel", "stall")),
        ["top", "{training}", "--json"],
        ["top", "{spool}"],
        ["top", "{kernels}", "--json"],
        ["top", "{torn}"],
        ["top", "{training}", "--focus", "none" + FILE_NAME],
        ["top", "{training}", "a" + FILE_NAME],
        ["top", "--" + FILE_NAME],
        ["top", "/nowhere" + FILE_NAME],
    ],
    "findings": [
        *(["findings", place] for place in ("{training}", "{ranks}", "{spool}", "{torn}")),
        ["findings", "{training}", "--json"],
    ],
    "annotate": [
        ["annotate", "{training}", "sgemm"],
        ["annotate", "{training}", "sgemm", "--sass"],
        ["annotate", "{training}", "sgemm", "--json"],
        ["annotate", "{kernels}", "scale"],
        ["annotate", "{kernels}", "scale", "--json"],
        ["annotate", "{training}", "none" + FILE_NAME],
        ["annotate", "{training}"],
        ["annotate", "{training}", "sgemm", "--cubin", "x" + FILE_NAME],
    ],
    "tally": [["tally", "{ranks}", "--extended"], ["tally", "{training}", "--extended"], ["tally", "{training}", "--json"]],
    "intra": [["intra", "{spool}"], ["intra", "{spool}", "--json"], ["intra", "{training}"]],
    "diff": [
        ["diff", "{before}", "{training}", "--all"],
        ["diff", "{before}", "{training}", "--all", "--json"],
        ["diff", "{training}", "{before}", "--all", "-o", "{place}/diff.svg"],
        ["diff", "{before}", "{kernels}"],
    ],
    "gate": [
        ["gate", "{before}", "{training}", "--threshold", "kernel=0"],
        ["gate", "{before}", "{training}", "--json"],
        ["gate", "{before}", "{training}", "--markdown", "-", "--junit", "{place}/gate.xml"],
        ["gate", "{before}", "{training}", "--junit", "-"],
        ["gate", "{before}", "{kernels}"],
        ["gate", "{before}", "{torn}"],
        ["gate", "{before}", "{training}", "--threshold", "none" + FILE_NAME],
    ],
    "import": [["import", "{collapsed}", "-o", "{place}/imported.aiflame"], ["import", "none" + FILE_NAME], ["import", "{torn}"]],
    "merge": [
        ["merge", "{before}", "{training}", "-o", "{place}/merged.aiflame"],
        ["merge", "{training}", "{ranks}"],
        ["merge", "{kernels}", "{kernels}"],
        ["merge", "{torn}", "/nowhere" + FILE_NAME],
    ],
    "stats": [
        ["stats"],
        *(
            ["stats", report, "{training}"]
            for report in ("hta.kernel-breakdown", "hta.launches", "nsys.cuda-gpu-trace", "tracelens.kernel-launchers")
        ),
        ["stats", "torch.key-averages-by-stack", "{training}"],
        ["stats", "hta.kernel-breakdown", "{training}", "--json"],
        ["stats", "nsys.nvtx-sum", "{training}", "--csv"],
        ["stats", "none" + FILE_NAME],
        ["stats", "hta.launches", "/nowhere" + FILE_NAME],
    ],
    "timeline": [["timeline", "{training}", "-o", "{place}/t.pftrace"], ["timeline", "{kernels}", "-o", "{place}/k.pftrace"]],
    "ranks": [["ranks", "{ranks}"], ["ranks", "{ranks}", "--json"], ["ranks", "{training}"]],
    "export": [
        ["export", "{training}"],
        ["export", "{spool}"],
        *(["export", "{training}", "--to", to] for to in ("speedscope", "chrome", "kineto", "firefox", "hatchet", "csv", "pprof")),
        ["export", "{training}", "--metric", "x" + FILE_NAME],
    ],
    "push": [
        ["push", "{training}", "http://localhost:1", "--wait", "1ms"],
        ["push", "{training}", "{torn}", "http://localhost:1/ingest", "--wait", "1ms", "--push-service", FILE_NAME],
        ["push", "{training}", FILE_NAME],
        ["push", "{training}", "http://localhost:1", "--push-headers", "/nowhere" + FILE_NAME],
        ["push", "--queue", "--list"],
    ],
    "mcp": [["mcp", "/nowhere" + FILE_NAME], ["mcp", "--allow-command", "'" + FILE_NAME]],
    "completion": [["completion", "none" + FILE_NAME]],
    "dump": [["dump", "999999999"], ["dump", "none" + FILE_NAME]],
    "doctor": [["doctor"], ["doctor", "--json"]],
    "demo": [["demo", "--device", "cpu", "--seconds", "0.1", "-o", "{place}/demo.aiflame"]],
    "keep": [["keep", "0" + FILE_NAME], ["keep", "999999999", FILE_NAME], ["keep", "1"]],
    "attach": [["attach", "999999999"], ["attach", "1", "--duration", "x" + FILE_NAME]],
    "agent": [
        ["agent", "--list", "--store", "/nowhere" + FILE_NAME],
        ["agent", "--store", "{training}"],
        ["agent", "--command", "(" + FILE_NAME],
    ],
    "ps": [["ps"], ["ps", "--all", "--json"]],
    "record": [
        ["record", "-o", "{place}/new.aiflame", "--", "/bin/true", FILE_NAME],
        ["record", "-o", "{place}/new.aiflame", "--", "/bin/true"],
        ["record", "--findings", "-o", "{place}/found.aiflame", "--", "/bin/true"],
        ["record", "--", "{place}/no such program"],
    ],
}

OUR_OWN = re.compile(
    rb"\x1b\[(?:[0-49]|[39]\d|38;5;\d+|38;2;\d+;\d+;\d+)(?:;(?:[0-49]|[39]\d))*m|\x1b\[\?25[lh]|\x1b\[\d?[AK]|\r+\n|\r(?=\x1b\[\d?[AK])"
)
"""Codes that a command may send: colours, its progress lines, line ends."""
MOVES = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def raw_in(written: bytes) -> list[str]:
    """The parts of a command's output that a terminal would obey, beside the command's own codes."""
    text = OUR_OWN.sub(b"\n", written).decode("utf-8", "replace")
    return [text[max(move.start() - 20, 0) : move.end() + 20] for move in MOVES.finditer(text)]


def test_each_command_has_its_runs() -> None:
    assert set(COMMANDS) == set(ALL_COMMANDS)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The output of each run on its terminal."""
    folder = tmp_path_factory.mktemp("texts")
    places = {name: str(path) for name, path in profiles(folder).items()} | {"place": str(folder / FILE_NAME)}
    names = [argument.strip("{}") for runs in COMMANDS.values() for run in runs for argument in run]
    assert set(places) - {"place"} <= set(names)
    own = {"AIFLAME_CANARY": FILE_NAME}
    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR"):
        own[variable] = str(folder / variable)
        Path(own[variable]).mkdir(mode=0o700)
    commands = [[argument.format(**places) for argument in run] for runs in COMMANDS.values() for run in runs]
    answers = on_a_terminal(commands, folder, **own)
    return dict(zip((" ".join(run) for runs in COMMANDS.values() for run in runs), answers, strict=True))


def of(written: dict[str, bytes], command: str) -> dict[str, bytes]:
    runs = {" ".join(run) for run in COMMANDS[command]}
    return {run: text for run, text in written.items() if run in runs}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_gets_no_control_character_from_a_text(written: dict[str, bytes], command: str) -> None:
    for run, text in of(written, command).items():
        assert text, run
        assert b"Traceback" not in text, text.decode()
        assert raw_in(text) == [], run


SHOWN = ("top", "findings", "annotate", "tally", "intra", "diff", "gate", "ranks", "export")
"""Others say little but where a file is that they wrote."""
LEAST_SHOWN = {"top": 7, "annotate": 5, "gate": 3, "export": 3}


@pytest.mark.parametrize("command", SHOWN)
def test_texts_are_shown_and_mean_nothing_to_rich(written: dict[str, bytes], command: str) -> None:
    shown = [text for text in of(written, command).values() if SEEN.encode() in text and not text.startswith(b"aiflame: ")]
    assert len(shown) >= LEAST_SHOWN.get(command, 1), of(written, command)
    assert not any(b"\xf0\x9f\x98\x84" in text for text in written.values())


def test_json_gives_each_text_back_as_it_was(written: dict[str, bytes]) -> None:
    """`intra` shortens names, `doctor` and `ps` have none of a profile."""
    answers = {run: text for run, text in written.items() if "--json" in run and not run.startswith(("doctor", "intra", "ps"))}
    documents = {run: json.loads(OUR_OWN.sub(b"\n", text).decode().split("\n\n")[-1]) for run, text in answers.items()}
    assert [run for run, document in documents.items() if not any(_has(document))] == []
    assert len(documents) == 10


def _has(value: object) -> list[bool]:
    if isinstance(value, str):
        return [f"{SEEN}{''.join(OBEYED)}" in value]
    if isinstance(value, dict):
        return [text for one in value.values() for text in _has(one)]
    return [text for one in value for text in _has(one)] if isinstance(value, list) else []


@pytest.mark.parametrize("text", OBEYED, ids=OBEYED.values())
def test_codes_that_a_terminal_obeys_are_found(text: str) -> None:
    assert raw_in(f"name {text}".encode())


def test_codes_that_commands_send_themselves_are_allowed() -> None:
    assert raw_in(b"\x1b[1;31mred\x1b[0m \x1b[38;5;12mblue\x1b[0m\r\n\r\x1b[Kaiflame: sealing\r\x1b[K") == []
