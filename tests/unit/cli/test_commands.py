"""The command line: one parser for all commands, help, and errors of one line that name the option that was probably meant."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from calling import Called, run_aiflame
from report_profiles import training

from aiflame.cli.commands import COMMANDS, GROUPS, load, parser
from aiflame.cli.describe import PAGES, renewed
from aiflame.version import VERSION

SOURCE = Path(__file__).parents[3] / "src"
DOCS = Path(__file__).parents[3] / "docs"


def test_every_command_is_a_module_that_parses_and_runs() -> None:
    for name in COMMANDS:
        command = load(name)
        assert command.DESCRIPTION.endswith((".", "?")), name
        assert any(f"aiflame {name}" in line for line in command.EXAMPLES), name
        assert callable(command.run), name
        one = name in ("annotate", "diff", "record", "import")
        words = {"completion": ["bash"], "attach": ["1"], "dump": ["1"], "keep": ["1"], "merge": ["a", "b"]}
        assert parser(name, command).parse(words.get(name, ["x"] * one))


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands_and_record_is_the_first(flag: str) -> None:
    result = run_aiflame(flag)
    assert (result.status, result.err) == (0, "")
    listed = re.findall(r"^  ([a-z]+)  +\S", result.out, re.MULTILINE)
    assert listed == list(COMMANDS)
    assert listed[0] == "record"


def test_aiflame_alone_is_help_on_stderr() -> None:
    result = run_aiflame()
    assert (result.status, result.out) == (2, "")
    assert result.err == run_aiflame("-h").out


def test_the_version_is_printed() -> None:
    assert run_aiflame("--version").out == f"aiflame {VERSION}\n"


@pytest.mark.parametrize("columns", [80, 100, 120, 200])
def test_help_is_no_wider_than_the_terminal_nor_than_a_line_to_read(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for name in ("", *COMMANDS):
        result = run_aiflame(*[name] if name else [], "-h")
        assert (result.status, result.err) == (0, ""), name
        assert max(map(len, result.out.splitlines())) <= min(columns, 100), name


def test_help_of_a_command_says_how_it_is_called_and_gives_an_example() -> None:
    result = run_aiflame("intra", "-h").out
    assert result.startswith("usage: aiflame intra [options] [PROFILE] [KERNEL]\n\nWhat happens inside Triton kernels")
    assert "-n, --rows N" in result
    assert result.endswith("  aiflame intra run.aiflame matmul\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tpo"], "there is no command tpo: did you mean top?"),
        (["Annotat"], "there is no command Annotat: did you mean annotate?"),
        (["t"], "there is no command t: did you mean top, tally or timeline?"),
        (["frobnicate"], "there is no command frobnicate: aiflame -h lists them"),
        (["runs/a.aiflame/"], "runs/a.aiflame/ is no command: did you mean aiflame open runs/a.aiflame/?"),
        (["--versoin"], "there is no option --versoin: did you mean --version?"),
        (["-x"], "there is no option -x: aiflame -h lists all options"),
        (["top", "--metrc", "gpu-time"], "top has no option --metrc: did you mean --metric?"),
        (["top", "--met=gpu-time"], "top has no option --met: did you mean --metric?"),
        (["report", "--base", "x"], "report has no option --base: did you mean --baseline or --base-ranks?"),
        (["record", "--wal", "--", "true"], "record has no option --wal: did you mean --wall?"),
        (["record", "--nonsense"], "record has no option --nonsense: see aiflame record -h"),
        (["annotate", "--sas"], "annotate has no option --sas: did you mean --sass?"),
        (["top", "--by", "kernal"], "top --by: 'kernal' is not known: did you mean kernel?"),  # codespell:ignore kernal
        (["top", "--by", "zzz"], "top --by: 'zzz' is none of function, kernel, stall, "),
        (["flame", "--detail", "instructions"], "flame --detail: 'instructions' is not known: did you mean instruction?"),
        (["export", "--to", "speed"], "export --to: 'speed' is not known: did you mean speedscope?"),
        (["demo", "--device", "gpu"], "demo --device: 'gpu' is not known: did you mean cpu?"),
        (["completion", "fish"], "completion SHELL: 'fish' is none of bash, zsh"),
        (["top", "-n", "0"], "top -n/--rows: '0' is not a whole number of 1 or more"),
        (["top", "-n", "1.5"], "top -n/--rows: '1.5' is not a whole number of 1 or more"),
        (["open", "--port", "70000"], "open --port: '70000' is not a whole number from 0 to 65535"),
        (["annotate", "x", "--least", "nan"], "annotate --least: 'nan' is not a number from 0 to 100"),
        (["demo", "--seconds", "0"], "demo --seconds: '0' is not a number of 0.1 or more"),
        (["top", "--metric"], "top --metric: expected one argument"),
        (["flame", "--metric", "cputime"], "flame --metric: 'cputime' is not known: did you mean cpu-time?"),
        (["top", "a", "b"], "top has no place for 'b': see aiflame top -h"),
        (["completion"], "completion needs SHELL"),
        (["record"], "there is no command to record: aiflame record -- COMMAND ..."),
        (["record", "--wall", "python"], "record --wall: 'python' is not a number of samples per second; the command stands behind --"),
    ],
)
def test_a_wrong_call_is_one_line_that_names_similar_words(arguments: list[str], says: str) -> None:
    result = run_aiflame(*arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"aiflame: {says}")
    assert result.err.count("\n") == 1


def test_a_strangers_word_controls_no_terminal() -> None:
    assert run_aiflame("top\x1b[2J").err == "aiflame: there is no command top?[2J: did you mean top?\n"


def test_arguments_may_stand_before_and_behind_options() -> None:
    intra = parser("intra", load("intra"))
    for words in (["p", "k", "-n", "3"], ["p", "-n", "3", "k"], ["-n", "3", "p", "k"], ["-n3", "--", "p", "k"]):
        options = intra.parse(words)
        assert (str(options.profile), options.kernel, options.rows) == ("p", "k", 3)


def test_arguments_behind_the_recorded_command_are_the_commands_own() -> None:
    options = parser("record", load("record")).parse(["--wall", "-q", "--", "python", "train.py", "--wal", "--", "-h"])
    assert (options.wall, options.command[-5:]) == (49, ["python", "train.py", "--wal", "--", "-h"])


def test_the_commands_are_imported_when_they_are_called() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from aiflame.cli.commands import COMMANDS, run\n"
        "run(['-h'])\n"
        "called = {f'aiflame.cli.{name}' for name in COMMANDS}\n"
        "print(*(called | {'numpy', 'polars', 'rich', 'shtab'}) & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-I", "-S", "-c", code, str(SOURCE)], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == ""


def test_a_package_that_is_missing_is_one_line() -> None:
    """A machine that records only lacks such packages."""
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from aiflame.cli.main import main; sys.exit(main())"
    process = subprocess.run([sys.executable, "-I", "-S", "-c", code, str(SOURCE), "top"], capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert re.fullmatch(r"aiflame: top needs \w+, which is not installed: pip install aiflame\n", process.stderr)


def test_python_runs_the_package_as_the_command() -> None:
    process = subprocess.run([sys.executable, "-m", "aiflame", "--version"], capture_output=True, text=True, check=True)
    assert process.stdout == f"aiflame {VERSION}\n"


def test_the_page_of_commands_equals_the_parsers_help() -> None:
    page = (DOCS / "commands.md").read_text()
    assert page == renewed(page), "run `python -m aiflame.cli.describe docs/commands.md`"


def test_the_pages_that_findings_link_exist() -> None:
    assert set(PAGES) <= set(COMMANDS)
    assert {page for pages in PAGES.values() for page in pages if not (DOCS / f"{page}.md").is_file()} == set()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([""], {*COMMANDS}),
        (["ta"], {"tally"}),
        (["top", "--me"], {"--metric"}),
        (["top", "--by", "l"], {"line", "layer"}),
        (["flame", "--metric", "gpu"], {"gpu-time", "gpu-stalls", "gpu-latency", "gpu-bytes", "gpu-allocated"}),
        (["record", "--wa"], {"--wall", "--wait-daemons"}),
        (["flame", "-o", "run"], {"run.svg"}),
        (["record", "--", "run"], {"run.svg"}),
    ],
)
def test_bash_completes_commands_options_values_and_files(tmp_path: Path, words: list[str], offered: set[str]) -> None:
    pytest.importorskip("shtab")
    (tmp_path / "run.svg").touch()
    script = run_aiflame("completion", "bash").out
    asks = 'COMP_WORDS=(aiflame "$@"); COMP_CWORD=$#; _shtab_aiflame; printf "%s\\n" "${COMPREPLY[@]}"'
    process = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{asks}", "bash", *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert set(process.stdout.split()) == offered


def test_zsh_gets_each_commands_line_of_help() -> None:
    pytest.importorskip("shtab")
    script = run_aiflame("completion", "zsh").out
    assert script.startswith("#compdef aiflame\n")
    assert all(help.replace("'", "'\"'\"'") in script for group in GROUPS.values() for help in group.values())


def test_without_shtab_completion_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    needs = "aiflame: completion needs shtab: pip install 'aiflame[completion]'\n"
    assert run_aiflame("completion", "bash") == Called(1, "", needs)


def test_a_complete_profile_is_read_without_disassemblers_and_debug_information(tmp_path: Path) -> None:
    profile = training(tmp_path / "p.aiflame").path
    code = "import sys\nfrom aiflame.cli.main import main\nmain()\nprint(*sys.modules, file=sys.stderr)"
    called = subprocess.run([sys.executable, "-c", code, "top", profile], capture_output=True, text=True, check=True)
    imported = set(called.stderr.split())
    assert "polars" in imported
    assert not imported & {"symbolic", "capstone", "aiflame.resolve.symbols"}
