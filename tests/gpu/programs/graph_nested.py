"""Graphs within graphs: `graph_nested.py child|if REPLAYS`. The work that c() captures runs as a child of the graph that d() replays, or as
the body of a condition that holds. Kernels spin 2 ms in first() and 1 ms in second().
"""

from __future__ import annotations

import ctypes
import sys

from driver import Context, Handle, call

MILLISECOND = 1_000_000
_CONDITIONAL = 13  # CUgraphNodeType
_ASSIGN_DEFAULT = 1  # CU_GRAPH_COND_ASSIGN_DEFAULT
_RELAXED = 2  # CUstreamCaptureMode


class ConditionalNode(ctypes.Structure):
    """CUgraphNodeParams of a conditional node."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("reserved0", ctypes.c_int * 3),
        ("handle", ctypes.c_ulonglong),
        ("kind", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("graphs", ctypes.POINTER(ctypes.c_void_p)),
        ("context", ctypes.c_void_p),
        ("padding", ctypes.c_longlong * 25),
        ("reserved2", ctypes.c_longlong),
    )


def first(context: Context) -> None:
    context.spin(2 * MILLISECOND)


def second(context: Context) -> None:
    context.spin(MILLISECOND)


def c(context: Context, into: Handle | None = None) -> Handle:
    graph = Handle()
    if into is None:
        context.begin_capture()
    else:
        call("cuStreamBeginCaptureToGraph", context.stream, into, None, None, ctypes.c_size_t(0), _RELAXED)
    first(context)
    second(context)
    call("cuStreamEndCapture", context.stream, ctypes.byref(graph))
    return graph


def child(context: Context) -> Handle:
    graph, node, inner = Handle(), Handle(), c(context)
    call("cuGraphCreate", ctypes.byref(graph), 0)
    call("cuGraphAddChildGraphNode", ctypes.byref(node), graph, None, ctypes.c_size_t(0), inner)
    return graph


def condition(context: Context) -> Handle:
    graph, node, handle = Handle(), Handle(), ctypes.c_ulonglong()
    call("cuGraphCreate", ctypes.byref(graph), 0)
    call("cuGraphConditionalHandleCreate", ctypes.byref(handle), graph, context.handle, 1, _ASSIGN_DEFAULT)
    parameters = ConditionalNode(type=_CONDITIONAL, handle=handle, kind=0, size=1, context=context.handle)
    call("cuGraphAddNode_v2", ctypes.byref(node), graph, None, None, ctypes.c_size_t(0), ctypes.byref(parameters))
    c(context, Handle(parameters.graphs[0]))
    return graph


def d(context: Context, graph: Handle) -> None:
    context.replay(graph)


def main() -> None:
    context, ready = Context(), Handle()
    graph = child(context) if sys.argv[1] == "child" else condition(context)
    call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
    for _ in range(int(sys.argv[2])):
        d(context, ready)
        context.synchronize()


if __name__ == "__main__":
    main()
