"""Hides frames that the program's author did not write: the interpreter, imports, the start of programs and threads, our own library,
the inside of a GPU's driver, and in trees of memory the functions through which all memory is allocated."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.memory.metrics import OF_MEMORY, base_name
from aiflame.attribute.stacks.process_frames import COMPILER_SUFFIX, GARBAGE_COLLECTOR, INTERPRETER_MODULE
from aiflame.attribute.transforms.reshape import hide_nodes
from aiflame.attribute.tree import Tree
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.names.torch_allocators import ALLOCATES

_NATIVE = [int(Kind.C), int(Kind.CPP)]
_DETAIL = [int(Kind.CPU_LINE), int(Kind.CPU_INSTRUCTION)]

_CALLS = (
    r"^(Py_X?(IN|DE)CREF|Py_X?NewRef|_?PyEval_\w+|_PyEval\w*|_TAIL_CALL_\w+"
    r"|_?PyObject_(Call\w*|Vectorcall\w*|FastCall\w*|MakeTpCall)|_PyObject_\w*Call\w*|_?PyVectorcall\w*"
    r"|_?PyFunction_\w*(Call|call)\w*|_?PyCFunction_\w*(Call|call)\w*|_?PyMethod\w*_\w*(Call|call)\w*"
    r"|_?PyRun_\w+|_PyRun_\w+|_?PyImport_\w+|Py_RunMain|Py_BytesMain|Py_Main|pymain_\w+)"
)
"""CPython's evaluation loop, calls, imports and start, by names that no other library uses."""

_CALLS_LOCAL = (
    r"^(main|call_function|do_call_core|function_code_fastcall|object_vacall|vectorcall_\w+|method_vectorcall\w*|method_call"
    r"|cfunction_call\w*|cfunction_vectorcall\w*|slot_tp_(call|init|new|iternext)|slot_nb_\w+|slot_sq_\w+|slot_mp_\w+|type_call|type_vectorcall"
    r"|wrapper_call|wrapperdescr_\w+|wrap_\w+|property_descr_get|partial_(call|vectorcall)\w*|classmethoddescr_call"
    r"|gen_send_ex\w*|gen_iternext|gen_send|context_run|run_mod|run_eval_code_obj|pyrun_\w+|exec_code_in_module|builtin_exec\w*|builtin___import__\w*"
    r"|import_\w+|thread_run|pythread_wrapper|t_bootstrap|bounded_\w+)"
)
"""The same for functions that are private to the interpreter: they count only in its module."""

_START_AND_END = r"^(Py_InitializeFromConfig|Py_FinalizeEx|_Py_Finalize)$"
_INTERPRETER_SHOWN = rf"{_START_AND_END}|^{re.escape(GARBAGE_COLLECTOR)}$"
"""The interpreter's functions that stay visible. The time of all others counts for the Python function that called them."""

_START = (
    r"^(_start|__libc_start_main\w*|__libc_start_call_main|start_thread|__?clone3?|clone3?|__GI___clone3?|thread_start"
    r"|execute_native_thread_routine)(@.*)?"
)
_BETWEEN = r"^(libaiflame(_mpi|_hip|_level_zero)?\b.*\.so|_ctypes\..*so|libffi\b.*)"
"""Our own library, and the libraries between Python and a foreign function."""
_DRIVER = r"^lib(cuda|cudart|cupti|nvidia-[\w-]+|nvperf_\w+)\b[^/]*\.so"
_DRIVER_INSIDE = (
    r"^(libcudart_static_[0-9a-f]+|__cudart\w*"
    r"|cuda(Launch|Memcpy|Memset|Mem|Malloc|Free|Graph|Stream|Event|Device|Func|Get|Set|Ctx|Host|Occupancy)[A-Z]?\w*)"
)
"""Names of the runtime's functions if it is linked into the program itself."""
_DRIVER_API = r"^_*cu(da)?[A-Z]\w*"
_BENEATH_ALL = r"^(ld-linux|ld-musl|libc|libpthread|libdl|librt|libstdc\+\+|libgcc_s)\b[^/]*\.so"
_BEFORE_START = (Kind.ROOT, Kind.PROCESS, Kind.THREAD, Kind.BOUNDARY)
IMPORT_FILES = r"^<frozen (importlib|zipimport)|[/\\]importlib[/\\](_bootstrap\w*|__init__)\.py$"
_RUN_FILES = r"^<frozen runpy|(^|[/\\])runpy\.py$"
"""The functions below which `python -m` runs a program."""
_TARGET_FILES = r"(^|[/\\])aiflame[/\\](target[/\\]\w+|intra[/\\](runtime|launch_hooks))\.py$"
"""aiflame's Python code inside the program. (Except the code that copies records out of a GPU: readers should see that these copies are
ours.)"""
_CELL_FILES = r"(^|[/\\])aiflame[/\\]notebook[/\\]cell\.py$"
"""The file that runs a cell for `%%aiflame`. Its callers are two dozen frames of the notebook's kernel."""
_ALLOCATORS = (
    r"^(__(libc|GI_+libc)_)?(m|c|re)alloc$|^(_int_malloc|sysmalloc|reallocarray|memalign|aligned_alloc|posix_memalign|p?valloc|mmap(64)?|mremap)$"
    r"|^operator new(\[\])?\b|^(std|__gnu_cxx)::(__)?(new_)?(allocator|allocator_traits)<.*>::allocate\b"
    r"|^_?Py(Mem|Object)_\w*(Malloc|Calloc|Realloc|Alloc|ArenaMmap)\w*$|^(pymalloc_alloc|new_arena|allocate_from_new_pool)$"
    r"|^(default_(m|c|re)alloc|PyDataMem_\w+|_?npy_alloc_cache\w*)$|^__r(ust|dl)_alloc\w*$"
    r"|^c10::(alloc_cpu|DefaultCPUAllocator::allocate)\b"
    rf"|{ALLOCATES}"
    r"|^c10::impl::(wrap_kernel_functor|BoxedKernelWrapper|make_boxed_from_unboxed|call_functor)"
)
"""Of the C library, C++, CPython, NumPy, torch and Rust."""
_THREAD_START = r"^(Thread\.)?(_bootstrap|_bootstrap_inner|run)$"


def hide_interpreter_noise(tree: Tree) -> Tree:
    """The tree without frames that the program's author did not write. Their time counts for their callers; totals stay, and the original
    tree is not changed."""
    return hide_nodes(tree, hidden_noise(tree, memory=base_name(tree.metrics[0].name) in OF_MEMORY))


def hidden_noise(tree: Tree, *, memory: bool = False) -> NDArray[np.bool_]:
    """The hidden nodes: functions, and the frames inside them. `memory`: the tree's values are bytes or blocks of memory."""
    noise = interpreter_noise(tree)
    if memory:
        noise |= is_allocator(tree.frames).to_numpy()[tree.frame]
    # Lines and instructions of a hidden function are hidden with it; a line of Python (without a module) inside of the interpreter stays.
    detail = tree.frames.select(pl.col("kind").is_in(_DETAIL)).to_series().to_numpy()[tree.frame]
    native = (tree.frames["module"] != "").to_numpy()[tree.frame]
    owner = nodes.nearest(tree.parent, ~detail)
    of_owner = native | (tree.kinds()[owner] == Kind.PYTHON)
    hidden: NDArray[np.bool_] = noise | (detail & of_owner & noise[owner])
    return hidden


def interpreter_noise(tree: Tree) -> NDArray[np.bool_]:
    """The nodes of hidden functions."""
    noise: NDArray[np.bool_] = is_noise(tree.frames).to_numpy()[tree.frame] | _inside_driver(tree)
    noise |= _interpreter_around_python(tree)
    noise |= _nameless_start(tree, noise)
    noise |= _kernel_below_cell(tree)
    noise[0] = False
    return noise


def _interpreter_around_python(tree: Tree) -> NDArray[np.bool_]:
    """The interpreter's own functions in stacks that have Python functions, and those of its start, end and garbage collector. Where Python
    frames were not read, the interpreter's functions stay."""
    in_module = pl.col("kind").is_in(_NATIVE) & pl.col("module").str.contains(INTERPRETER_MODULE)
    name = pl.col("name").str
    masks = (in_module, in_module & name.contains(_INTERPRETER_SHOWN), in_module & name.contains(_START_AND_END))
    inside, shown, ends = (tree.frames.select(mask).to_series().to_numpy()[tree.frame] for mask in masks)
    if not inside.any():
        return inside
    within_end = ends & (nodes.nearest(tree.parent, ends, strict=True) >= 0)
    own = (inside & ~shown) | within_end
    python = tree.kinds() == Kind.PYTHON
    place, count = nodes.preorder(tree.parent)
    before = np.zeros(len(tree) + 1, dtype=np.int64)
    before[place + 1] = python
    before = before.cumsum()
    calls_python = before[place + count] > before[place]
    around: NDArray[np.bool_] = own & (calls_python | (nodes.nearest(tree.parent, python | shown) >= 0))
    return around


def _nameless_start(tree: Tree, noise: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The C library's private functions that begin a stack and call others: the start of a program or a thread."""
    unknown = pl.col("kind").is_in(_NATIVE) & pl.col("name").str.starts_with("[unknown]") & pl.col("module").str.contains(_BENEATH_ALL)
    nameless: NDArray[np.bool_] = tree.frames.select(unknown).to_series().to_numpy()[tree.frame]
    if not nameless.any():
        return nameless
    base = nodes.nearest(tree.parent, ~(nameless | noise), strict=True)
    calls = np.zeros(len(tree), dtype=np.bool_)
    calls[tree.parent[1:]] = True
    start: NDArray[np.bool_] = nameless & calls & np.isin(tree.kinds()[np.maximum(base, 0)], _BEFORE_START)
    return start


def _kernel_below_cell(tree: Tree) -> NDArray[np.bool_]:
    """The functions between the start of a notebook's kernel and a recorded cell."""
    cell = (pl.col("kind") == int(Kind.PYTHON)) & pl.col("file").str.contains(_CELL_FILES)
    leads: NDArray[np.bool_] = tree.frames.select(cell).to_series().to_numpy()[tree.frame]
    if leads.any():
        leads = nodes.sum_up(tree.parent, leads.astype(np.int64)) > 0
    return leads & ~np.isin(tree.kinds(), _BEFORE_START)


def _inside_driver(tree: Tree) -> NDArray[np.bool_]:
    """In each run of a GPU driver's functions, all but the first function of its interface, or the first function if none has a name.
    Functions of the C library within a run stay too: they show why the driver waits."""
    native, name, module = pl.col("kind").is_in(_NATIVE), pl.col("name"), pl.col("module")
    interface = name.str.contains(_DRIVER_API + r"(@.*)?$")
    driver = native & (module.str.contains(_DRIVER) | name.str.contains(_DRIVER_INSIDE))
    entry = driver & interface
    outside = ~driver & ~(native & module.str.contains(_BENEATH_ALL)) & ~pl.col("kind").is_in(_DETAIL)
    is_driver, is_entry, is_outside = (tree.frames.select(which).to_series().to_numpy()[tree.frame] for which in (driver, entry, outside))
    if not is_driver.any():
        return is_driver
    last = nodes.nearest(tree.parent, is_entry | is_outside, strict=True)
    called = (last >= 0) & is_entry[last]
    above = is_driver[np.maximum(tree.parent, 0)]
    inside: NDArray[np.bool_] = is_driver & (called | (above & ~is_entry))
    return inside


def is_allocator(frames: pl.DataFrame) -> pl.Series:
    """True for the functions through which all memory is allocated."""
    return frames.select(pl.col("kind").is_in(_NATIVE) & pl.col("name").str.contains(_ALLOCATORS)).to_series()


def is_noise(frames: pl.DataFrame) -> pl.Series:
    """True for functions that are always noise, wherever they are."""
    name, file, module = (pl.col(column) for column in ("name", "file", "module"))
    native = pl.col("kind").is_in(_NATIVE) & (
        name.str.contains(_CALLS + COMPILER_SUFFIX)
        | (name.str.contains(_CALLS_LOCAL + COMPILER_SUFFIX) & module.str.contains(INTERPRETER_MODULE))
        | name.str.contains(_START + "$")
        | name.str.starts_with("aiflame::")
        | module.str.contains(_BETWEEN)
    )
    python = (pl.col("kind") == int(Kind.PYTHON)) & (
        file.str.contains(IMPORT_FILES)
        | file.str.contains(_RUN_FILES)
        | file.str.contains(_TARGET_FILES)
        | (file.str.contains(r"(^|[/\\])threading\.py$") & name.str.contains(_THREAD_START))
    )
    return frames.select(native | python).to_series()
