"""Hooks inside programs with torch, with a stand-in for the collector's module: the calls that they report; programs stay as they are."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

SOURCE = Path(__file__).resolve().parents[3] / "src"
STAND_IN = """
import sys, types
reports = []
fake = types.ModuleType("_aiflame")
def reporting(name, answer=None):
    def report(*values):
        reports.append((name, *values))
        return answer(*values) if answer else None
    return report
row = iter(range(1, 1 << 30))
fake.begin = reporting("begin", lambda *values: next(row))
for name in ("end", "name_layer", "forget_layer", "calibrate_autograd", "when_layers_are_new", "note"):
    setattr(fake, name, reporting(name))
fake.watch_model_calls = lambda *values: None
sys.modules["_aiflame"] = fake
def all_reported(name):
    return [values for kind, *values in reports if kind == name]
def layers():
    return [(path, root, kind.rpartition(".")[2]) for _, root, path, kind in all_reported("name_layer")]
import torch
from aiflame.target import torch_hooks
torch_hooks.install(torch)
[[names_wanted]] = [call for call in all_reported("when_layers_are_new")]
class Peek(torch.nn.Module):
    'The collector calls while this is called.'
    def forward(self, value):
        names_wanted()
        return value
"""


FORKS = """
import gc, json, os, sys
import torch
gc.freeze()
for line in sys.stdin:
    program, *files = json.loads(line)
    pid = os.fork()
    if pid == 0:
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
        exec(program, {"__name__": "__main__"})
        break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Imports torch once, which takes longer than most of the programs, and runs each in a child of its own."""
ENVIRONMENT = {"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"}


class Forks:
    """Programs that have torch."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", FORKS]
        self._process = subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._folder = folder
        self.complaints = ""
        """The last program's stderr."""

    def run(self, program: str, warnings_that_fail: str = "") -> str:
        """The output of a program with the hooks. Warnings of that class are errors, in the hooks as in the program."""
        strict = f"import warnings; warnings.simplefilter('error', {warnings_that_fail})\n" if warnings_that_fail else ""
        return self.run_as_it_is(strict + STAND_IN + textwrap.dedent(program))

    def run_as_it_is(self, program: str) -> str:
        said, failed = (self._folder / name for name in ("stdout", "stderr"))
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([program, str(said), str(failed)]) + "\n")
        self._process.stdin.flush()
        status, stdout, self.complaints = self._process.stdout.readline().strip(), said.read_text(), failed.read_text()
        said.unlink()
        failed.unlink()
        assert status == "0", self.complaints
        return stdout.strip()

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    started = Forks(tmp_path_factory.mktemp("forks"))
    yield started
    started.end()


Run = Callable[[str], str]


@pytest.fixture
def run(forks: Forks) -> Run:
    """Runs a program, and gives its output."""
    return forks.run


def test_all_below_the_outermost_module_of_a_stack_is_named(run: Run) -> None:
    assert (
        run("""
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ModuleDict({"peek": Peek()}))
        model.forward = lambda value: model[1]["peek"](value)
        model(torch.ones(2))
        assert {root for _, root, _ in layers()} == {id(model)}
        print([(path, kind) for path, _, kind in layers()])
        """)
        == "[('', 'Sequential'), ('0', 'Linear'), ('1', 'ModuleDict'), ('1.peek', 'Peek')]"
    )


def test_names_are_those_of_named_modules_and_a_shared_module_has_one_for_each_place(run: Run) -> None:
    run("""
    shared = torch.nn.Sequential(torch.nn.Linear(2, 2), Peek())
    model = torch.nn.ModuleList([shared, torch.nn.Sequential(shared, torch.nn.ReLU())])
    model.forward = lambda value: shared(value)
    model(torch.ones(2))
    assert sorted(path for path, _, _ in layers()) == sorted(name for name, _ in model.named_modules(remove_duplicate=False))
    """)


def test_a_module_that_hangs_in_itself_ends_there(run: Run) -> None:
    run("""
    model = torch.nn.Sequential(Peek(), torch.nn.Sequential())
    model[1].add_module("up", model)
    model.forward = lambda value: model[0](value)
    model(torch.ones(2))
    assert [path for path, _, _ in layers()] == ["", "0", "1"], layers()
    """)


def test_a_module_inside_no_other_on_the_stack_is_a_model_of_its_own(run: Run) -> None:
    run("""
    class Hides(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [torch.nn.Sequential(Peek())]
        def forward(self, value):
            return self.hidden[0](value)
    model = Hides()
    model(torch.ones(2))
    assert {(path, root) for path, root, _ in layers()} == {("", id(model)), ("", id(model.hidden[0])), ("0", id(model.hidden[0]))}
    """)


def test_names_are_sent_once_to_each_recording(run: Run) -> None:
    run("""
    model = torch.nn.Sequential(Peek())
    model(torch.ones(2)), model(torch.ones(2))
    assert len(layers()) == 2
    torch_hooks.recording_began()
    model(torch.ones(2))
    assert len(layers()) == 4
    """)


def test_a_model_that_runs_on_another_thread_is_named(run: Run) -> None:
    run("""
    import threading
    inside, go = threading.Event(), threading.Event()
    class Waits(torch.nn.Module):
        def forward(self, value):
            inside.set(); go.wait(); return value
    model = torch.nn.Sequential(Waits())
    thread = threading.Thread(target=model, args=(torch.ones(2),))
    thread.start(); inside.wait(); names_wanted(); go.set(); thread.join()
    assert [path for path, _, _ in layers()] == ["", "0"]
    """)


def test_a_module_that_is_gone_is_forgotten(run: Run) -> None:
    run("""
    model = torch.nn.Sequential(Peek())
    model(torch.ones(2))
    addresses = {id(model), id(model[0])}
    del model
    assert {address for address, in all_reported("forget_layer")} == addresses
    """)


def test_code_of_the_programs_own_is_never_run_for_a_name(run: Run) -> None:
    run("""
    class Hostile(torch.nn.Module):
        def __getattribute__(self, name):
            if name in ("__dict__", "_modules", "__class__") and sys._getframe(1).f_code.co_filename.endswith("torch_layers.py"):
                raise AssertionError(name)
            return super().__getattribute__(name)
        def __eq__(self, other): raise AssertionError
        __hash__ = None
        def __bool__(self): raise AssertionError
        def __len__(self): raise AssertionError
        def forward(self, value):
            names_wanted()
            return value
    Hostile()(torch.ones(2))
    assert [path for path, _, _ in layers()] == [""]
    """)


def test_a_hundred_thousand_modules(run: Run) -> None:
    run("""
    model = torch.nn.ModuleList(torch.nn.Identity() for _ in range(100_000))
    model.append(Peek())
    model.forward = lambda value: model[-1](value)
    model(torch.ones(2))
    assert len(layers()) == 100_002
    """)


def test_modules_that_share_too_much_come_to_an_end(run: Run) -> None:
    run("""
    inner = Peek()
    for _ in range(40):
        inner = torch.nn.Sequential(inner, inner)
    model = torch.nn.ModuleList([inner, Peek()])
    model.forward = lambda value: model[1](value)
    from aiflame.target import torch_layers
    torch_layers.MOST_PLACES = 1000
    model(torch.ones(2))
    # The part of the model that was not reached is a model of its own.
    assert len(layers()) == 1001 and all_reported("note")
    """)


def test_at_the_end_models_are_named_that_were_never_met(run: Run) -> None:
    assert (
        run("""
        model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        import atexit
        from aiflame.target import torch_layers
        torch_layers.at_exit()
        print([path for path, root, _ in layers() if root == id(model)])
        """)
        == "['', '0']"
    )


def test_a_step_of_an_optimizer_is_a_region(run: Run) -> None:
    run("""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward(); optimizer.step(); optimizer.step()
    assert all_reported("begin") == [["optimizer", "aiflame", 4, 1, id(optimizer)]] * 2
    assert all_reported("end") == [[1], [2]]
    """)


def test_a_step_that_raised_ends_before_the_next(run: Run) -> None:
    run("""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    def fail(): raise ValueError
    try: optimizer.step(fail)
    except ValueError: pass
    optimizer.step()
    assert [kind for kind, *_ in reports if kind in ("begin", "end")] == ["begin", "end", "begin", "end"]
    """)


def test_each_batch_of_a_loader_is_a_region_and_so_is_the_end(run: Run) -> None:
    run("""
    loader = torch.utils.data.DataLoader(list(range(6)), batch_size=2)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]
    assert all_reported("begin") == [["data", "aiflame", 4, 1]] * 4 and len(all_reported("end")) == 4
    """)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_loaders_with_workers(forks: Forks, start: str, tmp_path: Path) -> None:
    text = STAND_IN + textwrap.dedent(f"""
    if __name__ == "__main__":
        loader = torch.utils.data.DataLoader(list(range(6)), batch_size=2, num_workers=1, multiprocessing_context={start!r})
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]
        assert len(all_reported("begin")) == 4
    """)
    if start == "fork":
        forks.run_as_it_is(text)
        assert not forks.complaints
        return
    # Spawned workers need a program that is a file.
    program = tmp_path / "program.py"
    program.write_text(text)
    process = subprocess.run([sys.executable, str(program)], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert not process.stderr


def test_numbers_of_nodes_only_rise_and_random_numbers_stay(forks: Forks) -> None:
    forks.run(
        """
    calls = all_reported("calibrate_autograd")
    assert [number for _, number, _ in calls] == list(range(calls[0][1], calls[0][1] + 4))
    drawn = torch.rand(3)
    torch.manual_seed(torch.initial_seed())
    assert (torch.rand(3) == drawn).all()
    """,
        "Warning",
    )


def test_models_are_saved_copied_and_scripted_as_ever(forks: Forks) -> None:
    forks.run(
        """
    import copy, io, pickle
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    before = set(model.__dict__), pickle.dumps(model)
    value = torch.ones(2)
    torch.nn.Sequential(model, Peek())(value)
    assert (set(model.__dict__), pickle.dumps(model)) == before
    kept = io.BytesIO(); torch.save(model, kept)
    assert (copy.deepcopy(model)(value) == model(value)).all()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    copy.deepcopy(optimizer), pickle.dumps(optimizer)
    called = torch.func.functional_call(model, dict(model.named_parameters()), (value,))
    assert (called == model(value)).all()
    torch.func.vmap(model)(torch.ones(3, 2))
    torch.func.grad(lambda value: model(value).sum())(value)
    assert not torch.nn.modules.module._has_any_global_hook() if hasattr(torch.nn.modules.module, "_has_any_global_hook") else True
    """,
        "UserWarning",
    )


def test_compiled_steps_and_models_have_the_same_graphs(forks: Forks) -> None:
    """Dynamo looks into the hooks and finds nothing to do: no graph breaks there, and nothing is compiled once more."""
    program = """
    import torch._dynamo, warnings
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, backend="aot_eager")
    step = torch.compile(lambda: optimizer.step(), backend="aot_eager")
    losses = []
    for turn in range(4):
        loss = compiled(torch.ones(3, 4)).square().sum()
        loss.backward(); (step if turn % 2 else optimizer.step)(); optimizer.zero_grad()
        losses.append(loss.item())
    counters = torch._dynamo.utils.counters
    print(losses, dict(counters["stats"]), sum(counters["graph_break"].values()), sum(counters["recompiles"].values()))
    """
    assert forks.run(program) == forks.run_as_it_is("import torch\n" + textwrap.dedent(program))
