"""Our table of MPI's functions agrees with an MPI's own header: the number of arguments, and the meaning of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

MPI = Path(__file__).parents[3] / "native/mpi"
HEADER = Path("/usr/include/x86_64-linux-gnu/mpich/mpi_proto.h")
"""Debian's package libmpich-dev: names of arguments are the standard's."""

ROW = re.compile(r"^(SMALL|BOTH|COLLECTIVE)\((\w+), (\w+), (\w+), (\d+), (k\w+)\)$", re.MULTILINE)
SHAPE = re.compile(r"inline constexpr Shape (k\w+)\{(.*?)\};")
FIELD = re.compile(r"\.(\w+) = (\d+)")
WITHOUT_ARGUMENTS_IN_FORTRAN = {"Init": 0, "Init_thread": 2}

MEANINGS = {
    "count": r"(int|MPI_Count|MPI_Aint) (const )?\w*(count|counts|partitions)(\[\])?$",
    "count2": r"(int|MPI_Count) \w*(count|counts)(\[\])?$",
    "type": r"MPI_Datatype \w*types?(\[\])?$",
    "type2": r"MPI_Datatype \w*types?(\[\])?$",
    "peer": r"int (dest|source|root|target_rank|rank)$",
    "comm": r"MPI_Comm \w*comm\w*$",
    "window": r"MPI_Win win$",
    "new_comm": r"MPI_Comm \*\w+$",
    "freed_comm": r"MPI_Comm \*\w+$",
    "new_window": r"MPI_Win \*\w+$",
    "freed_window": r"MPI_Win \*\w+$",
}
"""Field of a shape → the argument that it must point at."""


def rows() -> list[tuple[str, str, str, int, str, bool]]:
    """name, small, upper, words, shape, with large counts"""
    functions = []
    for kind, name, small, upper, words, shape in ROW.findall((MPI / "functions.inc").read_text()):
        large = kind != "SMALL"
        functions.append((name, small, upper, int(words), shape, large))
        if kind == "COLLECTIVE":
            functions.append((f"I{name.lower()}", f"i{small}", f"I{upper}", int(words) + 1, shape, large))
            functions.append((f"{name}_init", f"{small}_init", f"{upper}_INIT", int(words) + 2, shape, large))
    return functions


SHAPES = {name: {field: int(at) for field, at in FIELD.findall(body)} for name, body in SHAPE.findall((MPI / "functions.hpp").read_text())}


def prototypes() -> dict[str, list[str]]:
    if not HEADER.exists():
        pytest.skip(f"no {HEADER.name} of MPICH here: `make test` installs it")
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    declarations = re.findall(r"\bint MPI_(\w+)\s*\(([^;]*?)\)[^;()]*(?:MPICH_\w+\([^;]*)?;", text)
    return {name: [argument.strip() for argument in arguments.split(",") if argument.strip() != "void"] for name, arguments in declarations}


def test_each_function_is_there_once_under_names_that_agree() -> None:
    names = [row[0] for row in rows()]
    assert len(names) == len(set(names)) > 200
    assert all(name.lower() == small and name.upper() == upper for name, small, upper, *_ in rows())
    assert {row[4] for row in rows()} <= set(SHAPES)


def test_shapes_point_at_the_arguments_that_they_name() -> None:
    declared, checked = prototypes(), 0
    for name, _, _, words, shape, _ in rows():
        if name not in declared:  # files: in another header
            assert name.startswith("File_")
            continue
        arguments = declared[name]
        assert WITHOUT_ARGUMENTS_IN_FORTRAN.get(name, len(arguments)) == words, name
        for field, at in SHAPES[shape].items():
            assert re.search(MEANINGS[field], arguments[at]), f"{name}: {field} is {arguments[at]!r}"
            checked += 1
    assert checked > 400


def test_large_counts_are_where_the_standard_has_them() -> None:
    declared = prototypes()
    with_large = {name for name, *_, large in rows() if large and not name.startswith("File_")}
    assert with_large == {name for name, *_ in rows() if f"{name}_c" in declared}
