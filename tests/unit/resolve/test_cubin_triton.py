"""Functions inlined into a Triton kernel, from the PTX in Triton's cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from cubins import DATA, cubin, line_of
from profiles import this_machine

from aiflame.resolve.device.cubin import Cubin
from aiflame.resolve.device.cubin_lines import File
from aiflame.resolve.device.triton_lines import TritonCache, caches

LIBRARY = "standard.py"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache as Triton keeps it: a folder for each compilation."""
    for name, content in (("OTHER", cubin("lines")), ("KEY", cubin("softmax"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "softmax.cubin").write_bytes(content)
        (tmp_path / name / "softmax.ptx").write_bytes((DATA / "softmax.ptx").read_bytes())
    return tmp_path


def chains(*roots: Path) -> list[list[tuple[str, int]]]:
    code = Cubin(cubin("softmax"))
    function = code.find("softmax")
    assert function
    lines = TritonCache(roots, this_machine()).lines(code, "softmax")
    inlined = (lines.chain(function.section, address) for address in range(0, function.size, 16))
    return [[(Path(place.file.path).name, place.line) for place in chain] for chain in inlined]


def test_calls_lead_from_the_kernel_through_its_helper_to_the_library(cache: Path):
    call, helper = line_of("softmax.py", "scaled(x), mask"), line_of("softmax.py", "y = tl.exp")
    inlined = [chain for chain in chains(cache) if len(chain) == 4]
    assert inlined, "the maximum: reduce, and in it the function of two elements"
    assert {tuple(chain[:2]) for chain in inlined} >= {(("softmax.py", call), ("softmax.py", helper))}
    assert all(chain[2][0] == chain[3][0] == LIBRARY for chain in inlined)


def test_the_innermost_line_stays_that_of_the_cubin(cache: Path, tmp_path: Path):
    assert [chain[-1:] for chain in chains(cache)] == [chain[-1:] for chain in chains()]


def test_every_instruction_of_a_helper_lies_below_the_kernel(cache: Path):
    """The kernel has no other way into the library."""
    call = line_of("softmax.py", "scaled(x), mask")
    inside = [chain for chain in chains(cache) if chain and chain[-1][0] == LIBRARY]
    assert len(inside) > 50
    assert {chain[0] for chain in inside if len(chain) > 1} == {("softmax.py", call)}
    assert sum(len(chain) > 1 for chain in inside) >= 0.95 * len(inside)


def test_without_the_cache_there_is_the_innermost_line():
    assert {len(chain) for chain in chains()} == {1}


def test_another_compilation_of_the_same_name_is_not_believed(cache: Path):
    data = bytearray((cache / "KEY/softmax.cubin").read_bytes())
    section = Cubin(bytes(data)).elf.section(".text.softmax")
    assert section
    data[section.offset] ^= 1
    (cache / "KEY/softmax.cubin").write_bytes(data)
    assert chains(cache) == chains()


@pytest.mark.parametrize("text", ["", "\n" * 9999, '.loc 1 2 3 // a:1:1 @[ b:x:y @[ [ ]\n.file 1 "', "\0\xff" * 500])
def test_a_damaged_ptx_changes_nothing(cache: Path, text: str):
    (cache / "KEY/softmax.ptx").write_text(text)
    assert chains(cache) == chains()


def test_where_two_files_have_the_same_name_no_call_is_named(cache: Path):
    text = (cache / "KEY/softmax.ptx").read_text()
    (cache / "KEY/softmax.ptx").write_text(text + '\n\t.file\t3 "/elsewhere/softmax.py"\n')
    assert chains(cache) == chains()


def test_inlined_code_has_the_name_of_its_python_function(tmp_path: Path):
    path = tmp_path / "kernels.py"
    path.write_text("@jit\ndef outer(x):\n    @jit\n    def inner(y):\n        return y\n    return inner(x)\n\nz = 1\n")
    file = File(str(path), path.stat().st_size)
    assert [TritonCache([], this_machine()).function_at(file, line) for line in (2, 5, 6, 8)] == ["outer", "inner", "outer", ""]


def test_a_python_file_that_has_changed_gives_no_names(tmp_path: Path):
    path = tmp_path / "kernels.py"
    path.write_text("def other(x):\n    return x\n")
    cache = TritonCache([], this_machine())
    assert cache.function_at(File(str(path), 7), 2) == ""
    assert cache.function_at(File(str(tmp_path / "none.py"), 0), 2) == ""


def test_caches_are_where_triton_and_torch_keep_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own, inductor = tmp_path / "own", tmp_path / "inductor/triton/0"
    for folder in (own, inductor):
        folder.mkdir(parents=True)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(own))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    assert {own, inductor} <= set(caches())
