"""Known causes of lost CPU time in Python programs: functions of the interpreter and of well-known modules, with a remedy for each."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from aiflame.analyze.cpu_facts import CpuFacts
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.layer_groups import escaped
from aiflame.analyze.places import begins_a_tool, hottest, short_place
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.metrics import METRICS
from aiflame.attribute.stacks.functions import Functions, functions
from aiflame.attribute.stacks.process_frames import COMPILER_SUFFIX, GARBAGE_COLLECTOR, INTERPRETER_MODULE
from aiflame.attribute.transforms.noise import IMPORT_FILES
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

LEAST_SHARE = 0.1
LEAST_SAMPLES = 100
"""Smallest number of samples of one cause: its standard error is a tenth. With fewer, a remedy gains almost nothing."""

_NATIVE = pl.col("kind").is_in([int(Kind.C), int(Kind.CPP)])
_PYTHON = pl.col("kind") == int(Kind.PYTHON)
GC, IMPORTS, START = "gc", "imports", "interpreter-start"


@dataclass(frozen=True, slots=True)
class Cause:
    kind: str
    doing: str
    """Text after "40% of CPU time is"."""
    frames: pl.Expr
    """Frames under which all time counts for this cause."""
    gain: float
    """The part of that time that the remedy may win."""
    fix: str
    not_from: str = ""
    """Files, as an expression: if their functions call such frames, the frames do not count."""


def _interpreter(*functions: str) -> pl.Expr:
    """Functions of CPython itself."""
    name = rf"^({'|'.join(functions)}){COMPILER_SUFFIX}"
    return _NATIVE & pl.col("module").str.contains(INTERPRETER_MODULE) & pl.col("name").str.contains(name)


def _python(file: str, name: str = "") -> pl.Expr:
    """Python functions of a file in the standard library or an installed package; the program's own file may have the same name. Traces of
    other tools name them by the path below these folders alone."""
    return (
        _PYTHON
        & pl.col("file").str.contains(rf"(^|[/\\](python\d[\d.]*|(site|dist)-packages)[/\\]){file}$")
        & pl.col("name").str.contains(name)
    )


def _builtin(name: str) -> pl.Expr:
    """Functions of the interpreter as the tracer of torch.profiler names them: `<built-in function print>`."""
    return _NATIVE & (pl.col("module") == "") & pl.col("name").str.contains(rf"^<{name}>$")


def _extension(module: str) -> pl.Expr:
    return _NATIVE & pl.col("module").str.contains(rf"^{module}\.[^/]*so$")


CAUSES = (
    Cause(
        "list-search",
        "searching lists from the front",
        _interpreter(
            r"list_contains\w*",
            r"list_(index|remove|count)(_impl)?",
            r"list___contains__\w*",
            r"tuple_?contains",
            r"tuple_(index|count)\w*",
            r"deque_(contains|index|remove|count)\w*",
            r"array_contains",
            r"_PySequence_IterSearch",
        )
        | _builtin(r"built-in method (index|remove|count) of (list|tuple|collections\.deque) object"),
        0.9,
        "Search a set or a dict instead of a list: `in` then takes the same time for any length.",
    ),
    Cause(
        "list-front",
        "moving the items of lists after insertions and removals at the front",
        _interpreter(r"list_insert(_impl)?", "ins1", r"list_pop(_impl)?", r"list_ass_slice\w*")
        | _builtin("built-in method insert of list object"),
        0.9,
        "Use collections.deque with appendleft() and popleft(), or append and sort once.",
    ),
    Cause(
        "string-building",
        "copying strings that grow by +",
        _interpreter("PyUnicode_Append", "PyUnicode_Concat", "unicode_concatenate", "PyBytes_Concat", "bytes_concat"),
        0.8,
        "Append the parts to a list and join them once (''.join(parts)), or write them to io.StringIO.",
    ),
    Cause(
        GC,
        "garbage collection",
        (_NATIVE & (pl.col("name") == GARBAGE_COLLECTOR)) | _builtin("built-in function collect"),
        0.8,
        "Call gc.freeze() when start-up is over, raise the limits with gc.set_threshold(), or keep fewer containers alive.",
    ),
    Cause(
        "json",
        "encoding and decoding JSON",
        _python(r"json[/\\](__init__|encoder|decoder|scanner)\.py") | _extension("_json"),
        0.6,
        "Encode less and decode once: keep the parsed values, or use a faster library (orjson, msgspec).",
    ),
    Cause(
        "pickle",
        "pickling objects",
        _extension("_pickle") | _interpreter(r"_pickle_\w+", r"_?_?(Unp|P)ickler_\w+") | _python(r"(pickle|cloudpickle)\.py"),
        0.6,
        "Pickle less: send indices or file names instead of objects, and put arrays in multiprocessing.shared_memory.",
    ),
    Cause(
        "logging",
        "logging",
        _python(r"logging[/\\](__init__|handlers)\.py"),
        0.7,
        "Log less in loops: raise the level, log every n-th time, or hand records to a logging.handlers.QueueHandler.",
    ),
    Cause(
        "printing",
        "printing",
        _interpreter(r"builtin_print(_impl)?") | _builtin("built-in function print"),
        0.7,
        "Print less in loops, or gather the lines and write them once with sys.stdout.write().",
    ),
    Cause(
        "deep-copy",
        "deep copies of objects",
        _python(r"copy\.py", r"^(deepcopy|_deepcopy\w*|_reconstruct)$"),
        0.7,
        "Copy less: share constant parts, or write a copy() for the changing fields alone.",
    ),
    Cause(
        "regex-compile",
        "compiling regular expressions",
        _python(r"(re[/\\]_(compiler|parser)|sre_compile|sre_parse)\.py"),
        0.9,
        "Compile each expression once with re.compile() at the top of the module, and do not build expressions from data.",
    ),
    Cause(
        "dataframe-growth",
        "copying pandas tables to append to them",
        _python(r"pandas[/\\]core[/\\]indexing\.py", r"_setitem_with_indexer_missing")
        | _python(r"pandas[/\\]core[/\\]reshape[/\\]concat\.py"),
        0.8,
        "Collect the rows in a list and make the DataFrame once, or call pandas.concat() once for all parts.",
        not_from=r"[/\\]pandas[/\\]core[/\\]",
    ),
    Cause(
        "collate",
        "putting the items of a DataLoader together into batches",
        _python(r"torch[/\\]utils[/\\]data[/\\]_utils[/\\]collate\.py"),
        0.6,
        "Give collate_fn less to do: items that are few tensors instead of lists and dicts of numbers, or whole batches from the data set"
        " (batch_size=None, __getitems__).",
    ),
    Cause(
        IMPORTS,
        "importing modules",
        _PYTHON & pl.col("file").str.contains(IMPORT_FILES),
        0.5,
        "Import in the function that needs the module, keep processes alive, and look for heavy modules with python -X importtime.",
    ),
    Cause(
        START,
        "starting Python interpreters",
        _interpreter("Py_InitializeFromConfig"),
        0.7,
        "Start fewer processes: keep a pool of workers alive, or call the function instead of its command.",
    ),
)
BY_KIND = {cause.kind: cause for cause in CAUSES}
_INTERPRETER_END = _interpreter("Py_FinalizeEx", "_Py_Finalize", "Py_EndInterpreter")
"""At its end an interpreter collects all garbage once more, which no remedy for collections avoids."""


def host_causes(profile: Tables, cpu: CpuFacts, samples: int) -> tuple[list[Finding], pl.DataFrame]:
    """The findings, and the rows of `cpu` that none of them covers. `samples`: number of samples."""
    trie = functions(profile)
    process, stack = (cpu.rows[name].cast(pl.Int64).to_numpy() for name in ("process", "stack"))
    leaf = trie.of_stacks(process, stack)
    cause = _causes_of_nodes(trie)[leaf]
    rows = cpu.rows.with_columns(cause=pl.when(pl.col("waits") == "").then(pl.Series(cause)).otherwise(-1), leaf=pl.Series(leaf))
    findings, named = [], []
    for (number,), part_of in sorted(rows.filter(pl.col("cause") >= 0).partition_by("cause", as_dict=True).items()):
        share = int(part_of["value"].sum()) / cpu.total
        if share >= LEAST_SHARE and share * samples >= LEAST_SAMPLES:
            findings.append(_finding(CAUSES[number], share, part_of, cpu, trie))
            named.append(number)
    return findings, rows.filter(~pl.col("cause").is_in(named)).select(cpu.rows.columns)


def _causes_of_nodes(trie: Functions) -> Ints:
    """For each node the number of the innermost cause at or above it, -1: none. Everything that an interpreter does at its start counts as
    the start; its collections at its end have no cause."""
    masks = [trie.matching(cause.frames) for cause in CAUSES]
    of_nodes = np.full(len(trie.frame), -1, dtype=np.int64)
    ends = nodes.nearest(trie.parent, trie.matching(_INTERPRETER_END)) >= 0
    masks[CAUSES.index(BY_KIND[GC])] &= ~ends
    for number, mask in reversed(list(enumerate(masks))):
        of_nodes[mask & ~_called_from(trie, mask, CAUSES[number].not_from)] = number
    innermost = nodes.nearest(trie.parent, of_nodes >= 0)
    start = CAUSES.index(BY_KIND[START])
    starts = nodes.nearest(trie.parent, masks[start]) >= 0
    return np.where(starts, start, np.where(innermost >= 0, of_nodes[innermost], -1))


def _called_from(trie: Functions, mask: Mask, files: str) -> Mask:
    """Marks the nodes that functions of such files have called, unless these functions are among the nodes themselves."""
    if not files or not mask.any():
        return np.zeros_like(mask)
    from_there = trie.matching(_PYTHON & pl.col("file").str.contains(files))
    python = trie.matching(_PYTHON)
    caller = nodes.nearest(trie.parent, python & ~mask, strict=True)
    called: Mask = (caller >= 0) & from_there[caller]
    return called


def _finding(cause: Cause, share: float, rows: pl.DataFrame, cpu: CpuFacts, trie: Functions) -> Finding:
    place, caller = hottest(rows.filter(~pl.col("file").str.starts_with("<")))
    if begins_a_tool(place.rpartition(":")[0], caller):
        place = ""
    details = [f"{share:.0%} of {METRICS[cpu.metric].label} is {cause.doing}"]
    searched = caller
    if cause.kind == START:
        place, searched = "", "Py_InitializeFromConfig"
        details.append(f"in {rows['process'].n_unique():,} processes")
    elif cause.kind == IMPORTS:
        details.append(_heaviest_module(rows, cpu.total, trie))
    elif cause.kind == GC:
        searched = GARBAGE_COLLECTOR
    if place:
        details.append(f"most at {short_place(place)}")
    view = Evidence("flame", cpu.metric, "code", f"^{escaped(searched)}$" if searched else "", place=place)
    return Finding(", ".join(filter(None, details)), share, view, cause.kind, share * cause.gain)


def _heaviest_module(rows: pl.DataFrame, total: int, trie: Functions) -> str:
    """`31% for pandas`: the module that the program imported, with everything that this module imports."""
    names, files = trie.frames["name"].to_list(), trie.frames["file"].to_list()
    imports = trie.matching(BY_KIND[IMPORTS].frames)
    body = np.array([name == "<module>" for name in names], dtype=np.bool_)[trie.frame]
    imported = body & (nodes.nearest(trie.parent, imports) >= 0)
    outermost = imported & ~(nodes.nearest(trie.parent, imported, strict=True) >= 0)
    of_leaf = nodes.nearest(trie.parent, outermost)[rows["leaf"].to_numpy()]
    modules = [_module_name(files[trie.frame[node]]) if node >= 0 else "" for node in of_leaf.tolist()]
    by_module = rows.select("value", module=pl.Series(modules, dtype=pl.String)).filter(~pl.col("module").is_in(["", "<frozen site>"]))
    summed = by_module.group_by("module").agg(pl.col("value").sum()).sort("value", "module", descending=[True, False])
    return f"{summed['value'][0] / total:.0%} for {summed['module'][0]}" if len(summed) else ""


def _module_name(file: str) -> str:
    """`pandas` for `…/site-packages/pandas/core/api.py`, `train` for `/app/train.py`."""
    inside = re.sub(r"^.*[/\\](?:site-packages|dist-packages|lib-dynload|python\d[\d.]*)[/\\]", "", file)
    first = re.split(r"[/\\]", inside)[0] if inside != file else re.split(r"[/\\]", file.removesuffix("/__init__.py"))[-1]
    return first.removesuffix(".py")
