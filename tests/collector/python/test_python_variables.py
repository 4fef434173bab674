"""The variables of running functions, read in each interpreter without `f_locals`, and the recorded bytes that live."""

from __future__ import annotations

from pathlib import Path

from python_programs import said

PROGRAM = """
import _aiflame

class Watched: pass

def values(frame):
    code = frame.f_code
    cells = [name for name in code.co_cellvars if sys.version_info < (3, 11) or name not in code.co_varnames]
    names = [*code.co_varnames, *cells, *code.co_freevars]
    return {name: _aiflame.variable(frame, place) for place, name in enumerate(names)}

def outer(argument, shared):
    number, text = 12345, "some text"
    def inner():
        own, unset = shared, None
        del unset
        return values(sys._getframe())
    found, in_inner = values(sys._getframe()), inner()
    cell = found["shared"]
    return [found["argument"] is argument, found["number"], found["text"], found["in_inner"], found["cell"], cell.cell_contents is shared,
            in_inner["own"] is shared, in_inner["unset"], in_inner["shared"].cell_contents is shared]

def stays():
    kept = Watched()
    before = sys.getrefcount(kept)
    for _ in range(100):
        values(sys._getframe())
    return sys.getrefcount(kept) - before

def generator():
    received = ["in it"]
    yield
waiting = generator(); next(waiting)
print(json.dumps([outer(Watched(), Watched()), stays(), values(waiting.gi_frame)["received"], type(_aiflame.live_bytes()).__name__]))
"""


def test_variables_have_the_values_that_the_program_sees(python: str, tmp_path: Path) -> None:
    """An argument that an inner function uses is a cell."""
    answer, _ = said(python, tmp_path, PROGRAM)
    assert answer == [[True, 12345, "some text", None, None, True, True, None, True], 0, ["in it"], "int"]
