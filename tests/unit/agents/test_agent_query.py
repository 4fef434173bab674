"""SQL for agents: the profile's tables alone, in a process that the kernel keeps from files and networks, bounded in time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from spool_files import busy_process, ended_profile

from aiflame.agents.access import Access
from aiflame.agents.query import LONGEST_QUERY, query_answer
from aiflame.api import Profile
from aiflame.errors import AiflameError


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    path = tmp_path_factory.mktemp("query")
    ended_profile(path / "p.aiflame", busy_process())
    frame = pl.DataFrame({"secret": ["hunter2"]})
    frame.write_csv(path / "file.csv")
    frame.write_parquet(path / "file.parquet")
    return Access.to([path]).open("p.aiflame")


def test_a_query_is_answered_with_its_columns_and_rows(profile: Profile) -> None:
    document = json.loads(query_answer(profile, "SELECT id, COUNT(*) AS n FROM threads GROUP BY id ORDER BY id", 10).text())
    assert document["untrusted"]["columns"] == ["id", "n"]
    assert document["untrusted"]["rows"][0] == {"id": 1, "n": 1}
    assert document["rows_in_all"] == len(document["untrusted"]["rows"])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{folder}/file.csv')",
        "SELECT * FROM read_parquet('{folder}/file.parquet')",
        "SELECT * FROM read_csv('https://example.org/x.csv')",
        "SELECT * FROM '{folder}/file.csv'",
        'SELECT * FROM "{folder}/file.parquet"',
        "SELECT * FROM threads, '{folder}/file.csv'",
        "CREATE TABLE x AS SELECT * FROM threads",
        "SELECT",
    ],
)
def test_no_file_is_reached(profile: Profile, query: str) -> None:
    with pytest.raises(AiflameError, match="cannot be answered") as refused:
        query_answer(profile, query.format(folder=profile.path.parent), 10)
    assert "hunter2" not in str(refused.value)


def test_an_empty_query_names_the_tables_and_their_columns(profile: Profile) -> None:
    tables = {row["table"]: row for row in json.loads(query_answer(profile, " ", 1).text(50_000))["untrusted"]["tables"]}
    assert tables["threads"]["rows"] == len(profile.table("threads"))
    assert "cpu_samples" in tables and tables["threads"]["columns"].startswith("process, id")


def test_a_query_that_takes_too_long_is_ended(profile: Profile) -> None:
    endless = "SELECT COUNT(*) FROM " + ", ".join(f"stacks s{number}" for number in range(20))
    with pytest.raises(AiflameError, match=r"took longer than 3 s and was ended|more than 1 GiB"):
        query_answer(profile, endless, 1, seconds=3)


def test_a_query_of_any_length_is_not_parsed(profile: Profile) -> None:
    with pytest.raises(AiflameError, match="use at most"):
        query_answer(profile, "SELECT " + "1," * LONGEST_QUERY + "1", 1)


def in_sandbox(code: str) -> str:
    """The name of the error that code gets once the process has shut itself in."""
    program = f"""
import ctypes, os, socket, subprocess
from aiflame.agents.sandbox import limit, shut
limit(256 << 20, 10)
if not shut():
    print("none")
else:
    try:
        {code}
        print("nothing")
    except BaseException as error:
        print(type(error).__name__)
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("open('/etc/passwd')", "PermissionError"),
        ("os.open('/tmp/new', os.O_CREAT | os.O_WRONLY)", "PermissionError"),
        ("socket.socket()", "PermissionError"),
        ("socket.socketpair()", "PermissionError"),
        ("os.execv('/bin/true', ['true'])", "PermissionError"),
        ("bytearray(1 << 30)", "MemoryError"),
        ("bytearray(1 << 20)", "nothing"),
    ],
)
def test_the_kernel_refuses_files_networks_programs_and_memory(code: str, error: str) -> None:
    said = in_sandbox(code)
    if said == "none":
        pytest.skip("this kernel or processor has no filter of system calls that we know")
    assert said == error


def test_a_thread_that_began_before_is_shut_in_as_well() -> None:
    program = """
import threading
from aiflame.agents.sandbox import shut
go, errors = threading.Event(), []
def work():
    go.wait()
    try:
        open("/etc/passwd")
    except OSError as refused:
        errors.append(refused)
thread = threading.Thread(target=work)
thread.start()
is_shut = shut()
go.set()
thread.join()
print(is_shut, *errors)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.startswith("False") or "Permission denied" in said


def test_the_folder_of_a_profile_runs_no_code(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = profile.path.parent
    (folder / "polars.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(folder)
    assert "rows" in query_answer(profile, "SELECT id FROM threads", 1).text()
