"""Tables of records from inside kernels. They are derived from `intra/*.captures` once a profile is sealed.

Spans are kept for some launches, `intra_times` for all. Times use the profile's clock, CLOCK_MONOTONIC; the cost of records is taken off
`took` and `own`, but not off begin and end, which are real moments.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

Columns = Mapping[str, type[pl.DataType]]

INTRA_KERNELS: Columns = {
    "process": pl.UInt32,
    "kernel": pl.UInt32,  # from 1, for each process
    "name": pl.String,  # as compiled and launched
    "file": pl.String,
    "line": pl.UInt32,
    "warps": pl.UInt32,  # of a CTA
    "recorded_warps": pl.UInt32,
    "arch": pl.String,
    "triton": pl.String,
    "record_cycles": pl.Float64,  # the cost of a record, which was taken off
    "plain_registers": pl.Int64,  # -1: not known, as with all that follow
    "registers": pl.Int64,
    "plain_shared": pl.Int64,
    "shared": pl.Int64,
    "plain_spills": pl.Int64,
    "spills": pl.Int64,
    "plain_ns": pl.Int64,
}
INTRA_SCOPES: Columns = {
    "process": pl.UInt32,
    "kernel": pl.UInt32,
    "scope": pl.UInt16,
    "name": pl.String,
    "pass": pl.String,
    "kind": pl.String,  # load, mma, barrier, wait, store, loop, region, role, user, async
    "op": pl.String,
    "file": pl.String,
    "line": pl.UInt32,
    "loop": pl.Int32,  # -1: none
    "phase": pl.String,  # span, issue, wait
    "pair": pl.Int32,  # of a wait: the scope that issued the awaited work, -1: none
}
INTRA_PATHS: Columns = {
    "process": pl.UInt32,
    "kernel": pl.UInt32,
    "path": pl.UInt32,  # from 1, for each kernel, those around it first
    "parent": pl.UInt32,  # 0: outermost
    "scope": pl.UInt16,
    "beside": pl.Boolean,  # it goes on while the warp does other things: part of no other's time
}
INTRA_LAUNCHES: Columns = {
    "process": pl.UInt32,
    "launch": pl.UInt32,  # from 1, for each process
    "kernel": pl.UInt32,
    "device": pl.UInt32,
    "stream": pl.UInt64,
    "number": pl.UInt64,  # how many launches of this kernel there were before and with it
    "grid": pl.UInt64,  # CTAs of the launch
    "ctas": pl.UInt32,  # CTAs that were read; in a launch with very many, later CTAs overwrite the records of earlier ones
    "bad_ctas": pl.UInt32,  # CTAs whose memory holds no records
    "start_ns": pl.Int64,  # when the kernel began, by the device's own record of it
    "end_ns": pl.Int64,  # 0: not known
    "begin_ns": pl.Int64,  # when its first CTA began
    "span_ns": pl.Int64,  # from there until its last CTA was done
    "ns_per_cycle": pl.Float64,
    "ns_per_cycle_error": pl.Float64,  # relative, infinite: only bounded
    "records": pl.UInt64,
    "dropped": pl.UInt64,  # records that were overwritten
    "unpaired": pl.UInt64,  # records whose other end is missing
    "dropped_launches": pl.UInt64,  # launches before it of which nothing was kept
    "warp_ns": pl.Float64,  # of all its warps, the time that records cover, without their cost
    "kept": pl.Boolean,  # its spans are in `intra_spans`
}
INTRA_TIMES: Columns = {
    "process": pl.UInt32,
    "launch": pl.UInt32,
    "path": pl.UInt32,
    "count": pl.UInt64,
    "took_ns": pl.Float64,
    "own_ns": pl.Float64,  # without the scopes inside
    "least_ns": pl.Float64,
    "median_ns": pl.Float64,
    "p95_ns": pl.Float64,
    "most_ns": pl.Float64,
}
INTRA_CTAS: Columns = {
    "process": pl.UInt32,
    "launch": pl.UInt32,
    "cta": pl.UInt32,
    "sm": pl.UInt32,
    "begin_ns": pl.Int64,
    "done_ns": pl.Int64,  # it began to write its records back
    "end_ns": pl.Int64,
}
INTRA_WARPS: Columns = {
    "process": pl.UInt32,
    "launch": pl.UInt32,
    "cta": pl.UInt32,
    "warp": pl.UInt16,
    "records": pl.UInt32,
    "dropped": pl.UInt32,
    "begin_ns": pl.Int64,  # from here on nothing is missing: its CTA's begin, or the oldest record left
    "covered_ns": pl.Float64,  # from there to its CTA's end, without the cost of its records
}
INTRA_SPANS: Columns = {
    "process": pl.UInt32,
    "launch": pl.UInt32,
    "cta": pl.UInt32,
    "warp": pl.UInt16,
    "scope": pl.UInt16,
    "path": pl.UInt32,
    "depth": pl.UInt16,  # spans around it
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    "took_ns": pl.Float32,
    "own_ns": pl.Float32,
}
TABLES: Mapping[str, Columns] = {
    "intra_kernels": INTRA_KERNELS,
    "intra_scopes": INTRA_SCOPES,
    "intra_paths": INTRA_PATHS,
    "intra_launches": INTRA_LAUNCHES,
    "intra_times": INTRA_TIMES,
    "intra_ctas": INTRA_CTAS,
    "intra_warps": INTRA_WARPS,
    "intra_spans": INTRA_SPANS,
}
