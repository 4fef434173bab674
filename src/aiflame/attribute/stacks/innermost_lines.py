"""Frames inside the innermost function of a stack: the source line and the machine instruction of the sample."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.stacks.line_names import line_names
from aiflame.attribute.stacks.process_frames import INTERPRETER_MODULE
from aiflame.attribute.stacks.table import stack_table
from aiflame.attribute.tree import FRAME_COLUMNS
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_words import frame_kinds
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables

GPU_KINDS = [int(Kind.GPU_KERNEL), int(Kind.GPU_LINE)]
CODE_KINDS = [int(Kind.PYTHON), int(Kind.C), int(Kind.CPP), int(Kind.GPU_KERNEL)]


def line_frames(profile: Tables, stacks: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`matmul.cpp:41`: frames, and (process, stack, row) for the stacks (process, stack) whose innermost line is known.

    If the innermost function belongs to the interpreter, it is the line of the running Python function.
    """
    innermost = _innermost(profile, stacks)
    interpreter = innermost.filter(pl.col("module").str.contains(INTERPRETER_MODULE))
    lines = pl.concat(
        [
            innermost.join(interpreter, on=["process", "stack"], how="anti"),
            _innermost_python(profile, interpreter.select("process", "stack")),
        ],
        how="diagonal",
    )
    with_place = lines.filter((pl.col("line") > 0) & (pl.col("file") != "") & pl.col("kind").is_in(CODE_KINDS))
    named = with_place.with_columns(kind=_inside(Kind.GPU_LINE, Kind.CPU_LINE), **line_names())
    return _rows(named)


def instruction_frames(profile: Tables, stacks: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`vfmadd231ps @ +0x1f3`, the mnemonic at its offset in the function; otherwise as `line_frames`."""
    named = (
        _innermost(profile, stacks)
        .join(profile.table("instructions"), on=["process", "frame"])
        .with_columns(
            name=pl.format(
                "{} @ +{}",
                pl.col("text").str.split(" ").list.first(),
                pl.col("function_offset").map_elements(hex, return_dtype=pl.String),
            ),
            kind=_inside(Kind.GPU_INSTRUCTION, Kind.CPU_INSTRUCTION),
            full_name=pl.col("text"),
        )
    )
    return _rows(named)


def _innermost(profile: Tables, stacks: pl.DataFrame) -> pl.DataFrame:
    """The innermost function of each stack, which may be an inlined one: its symbol, with process and stack."""
    words = _words_of_functions(profile).select("process", "frame", stack="id")
    symbols = profile.table("symbols").sort("depth").unique(["process", "frame"], keep="last", maintain_order=True)
    return stacks.join(words, on=["process", "stack"]).join(symbols, on=["process", "frame"])


def _words_of_functions(profile: Tables) -> pl.DataFrame:
    """The stacks, sorted by process and id. LAYER words are not functions: a stack that ends in one gets its caller's word."""
    stacks = stack_table(profile)
    layer = frame_kinds(stacks.words) == FrameKind.LAYER
    if not layer.any():
        return stacks.rows
    outside = np.where(layer & (stacks.caller >= 0), stacks.caller, np.arange(len(layer)))
    return stacks.rows.with_columns(frame=pl.Series(stacks.words[outside]))


def _innermost_python(profile: Tables, wanted: pl.DataFrame) -> pl.DataFrame:
    """The same for the innermost Python function of each stack."""
    stacks = stack_table(profile)
    place = stacks.nearest(frame_kinds(stacks.words) == FrameKind.PYTHON)
    words = stacks.rows.select("process", stack="id", frame=stacks.rows["frame"].gather(np.maximum(place, 0)))
    symbols = profile.table("symbols").unique(["process", "frame"], keep="first")
    return wanted.join(words.filter(pl.Series(place >= 0)), on=["process", "stack"]).join(symbols, on=["process", "frame"])


def _inside(gpu: Kind, cpu: Kind) -> pl.Expr:
    return pl.when(pl.col("kind").is_in(GPU_KINDS)).then(pl.lit(int(gpu))).otherwise(pl.lit(int(cpu))).cast(pl.UInt8)


def _rows(named: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    frames = named.select(list(FRAME_COLUMNS)).unique(maintain_order=True)
    rows = named.join(frames.with_row_index("row"), on=list(FRAME_COLUMNS)).select("process", "stack", "row").unique(["process", "stack"])
    return frames.select(pl.col(name).cast(type_) for name, type_ in FRAME_COLUMNS.items()), rows
