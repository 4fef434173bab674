"""Functions through which all memory is allocated: hidden where memory is counted, and only there."""

from __future__ import annotations

import pytest
from trees import THREAD, c, paths, py

from aiflame.attribute.transforms.noise import hide_interpreter_noise, is_allocator
from aiflame.attribute.tree import CPU_TIME, Frame, Metric, frame_table, from_stacks
from aiflame.profile.schema.kinds import Kind

ALLOCATORS = (
    "malloc", "calloc", "realloc", "__libc_malloc", "posix_memalign", "aligned_alloc", "mmap", "mmap64", "operator new(unsigned long)",
    "operator new[](unsigned long)", "std::__new_allocator<int>::allocate", "__gnu_cxx::new_allocator<float>::allocate",
    "PyMem_Malloc", "_PyMem_RawMalloc", "PyObject_Malloc", "_PyObject_Malloc", "_PyObject_ArenaMmap", "default_malloc", "PyDataMem_UserNEW",
    "c10::alloc_cpu(unsigned long)", "at::detail::empty_generic(c10::ArrayRef<long>)", "at::_ops::empty_like::call(at::Tensor const&)",
    "__rust_alloc",
)  # fmt: skip
OTHERS = (
    "my_malloc", "malloc_trim", "remalloc_pool", "allocate", "Arena::allocate", "operator newer", "alloc_mmap", "blas_memory_alloc",
    "mmap_file", "PyArray_NewFromDescr_int", "PyObject_Call", "at::native::clone(at::Tensor const&)", "at::_ops::zeros_like::call",
    "std::vector<int>::push_back",
)  # fmt: skip


@pytest.mark.parametrize("name", ALLOCATORS)
def test_an_allocator_is_one(name: str) -> None:
    assert is_allocator(frame_table([Frame(name, Kind.CPP)])[1:]).to_list() == [True]
    assert is_allocator(frame_table([Frame(name, Kind.PYTHON)])[1:]).to_list() == [False]


@pytest.mark.parametrize("name", OTHERS)
def test_another_function_is_none(name: str) -> None:
    assert is_allocator(frame_table([Frame(name, Kind.CPP)])[1:]).to_list() == [False]


@pytest.mark.parametrize(("metric", "hidden"), [("host-bytes", True), ("host-bytes@end", True), ("allocations", True), ("cpu-time", False)])
def test_they_are_hidden_where_memory_is_counted(metric: str, hidden: bool) -> None:
    stack = (THREAD, py("keep"), c("make_array"), c("malloc", "libc.so.6"))
    counted = CPU_TIME if metric == "cpu-time" else Metric(metric, "bytes", "bytes")
    names = ("main thread", "keep", "make_array")
    assert paths(hide_interpreter_noise(from_stacks([(stack, 5)], counted)), metric) == {names if hidden else (*names, "malloc"): 5}
