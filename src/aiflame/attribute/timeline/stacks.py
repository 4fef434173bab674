"""Texts about stacks in a timeline: the innermost lines of Python, and the called function of a driver's interface."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.stacks.functions import functions
from aiflame.attribute.stacks.word_trie import WordTrie, word_trie
from aiflame.attribute.transforms.noise import interpreter_noise
from aiflame.attribute.tree import Tree
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_words import is_frame_of
from aiflame.profile.tables.interface import Tables

LINES = 4
"""The number of innermost lines that are shown of a stack."""
_GLUE_FILES = (
    r"(?:^|/)torch/(?:nn/modules/module|_ops|_tensor|utils/_contextlib|autograd/(?:__init__|graph|function))\.py$"
    r"|(?:^|/)torch/_(?:inductor|functorch|dynamo)/|(?:^|/)triton/(?:runtime|backends)/|^<frozen"
)
"""Files of Python functions through which torch and Triton call the user's code, or code generated from it."""
_LAUNCHER = ("<string>", "launcher")
"""The function that Inductor makes for each kernel."""
_INTERFACE = r"^_*(?:cu(?:da)?[A-Z]|cl[A-Z]|hip[A-Z]|ze[A-Z])\w*(?:@.*)?$"


class Stacks:
    def __init__(self, profile: Tables) -> None:
        self._profile = Analysis.of(profile)
        self.trie = functions(self._profile)

    def tops(self, process: Ints, stack: Ints) -> list[list[str]]:
        """`model.py:41 Attention.forward`: the innermost lines of Python, innermost first; for stacks without Python functions, other
        functions."""
        words, text = self._lines
        parent, word = words.parent, words.word
        at = words.stacks.keys.find(process, stack) + 1
        shown = np.append(np.array([bool(one) for one in text], dtype=np.bool_), False)[word]
        nearest, further = nodes.nearest(parent, shown), nodes.nearest(parent, shown, strict=True)
        steps = _walk(np.where(at > 0, nearest[at], -1), further)
        lines = [[text[word[one]] for one in each if one >= 0] for each in steps.tolist()]
        bare = np.array([not each for each in lines], dtype=np.bool_)
        for place, names in zip(np.flatnonzero(bare).tolist(), self._functions(process[bare], stack[bare]), strict=True):
            lines[place] = names
        return lines

    def calls(self, process: Ints, stack: Ints) -> list[str]:
        """The function of the driver's or runtime's interface in which each stack ends, `cudaLaunchKernel`; empty if unknown."""
        leaves, which = np.unique(self.visible_of(process, stack), return_inverse=True)
        frames = self.trie.frames[self.trie.frame[leaves]]
        name = pl.when(frames["name"].str.contains(_INTERFACE)).then(frames["name"].str.split("@").list.first()).otherwise(pl.lit(""))
        names = frames.select(name.alias("name"))["name"].to_list()
        return [names[one] for one in which.tolist()]

    def visible_of(self, process: Ints, stack: Ints) -> Ints:
        """The innermost node of `trie` that is not noise; 0 if there is none."""
        node = self.trie.on_threads(process, stack)
        visible = self.visible[node].astype(np.int64)
        return np.where(visible > self.trie.processes, visible, 0)

    @cached_property
    def visible(self) -> NDArray[np.int32]:
        """For each node of `trie` the nearest node at or above it that is not noise."""
        return nodes.nearest(self.trie.parent, ~self.noise)

    @cached_property
    def noise(self) -> NDArray[np.bool_]:
        return interpreter_noise(Tree(self.trie.frames, self.trie.parent, self.trie.frame, {}, ()))

    def _functions(self, process: Ints, stack: Ints) -> list[list[str]]:
        shown = ~self.noise
        shown[: self.trie.processes + 1] = False
        further = nodes.nearest(self.trie.parent, shown, strict=True)
        node = self.visible_of(process, stack)
        steps = _walk(np.where(node > 0, node, -1), further)
        used = self.trie.frames[self.trie.frame[np.maximum(steps, 0)].ravel()]
        names = [f"{name} ({module})" if module else name for name, module in used.select("name", "module").rows()]
        rows = [names[at : at + LINES] for at in range(0, len(names), LINES)]
        return [[name for one, name in zip(each, row, strict=True) if one >= 0] for each, row in zip(steps.tolist(), rows, strict=True)]

    @cached_property
    def _lines(self) -> tuple[WordTrie, list[str]]:
        """The trie of words, and the text of each distinct word (empty: not shown)."""
        words = word_trie(self._profile)
        symbols = self._profile.table("symbols") if self._profile.has("symbols") else None
        text = [""] * len(words.distinct)
        if symbols is not None:
            line = pl.format("{}:{} {}", pl.col("file").str.split("/").list.last(), "line", "name")
            shown = is_frame_of(FrameKind.PYTHON) & ~pl.col("file").str.contains(_GLUE_FILES)
            shown &= (pl.col("file") != _LAUNCHER[0]) | (pl.col("name") != _LAUNCHER[1])
            own = symbols.filter(pl.col("depth") == 0).unique(["process", "frame"], keep="first")
            named = words.distinct.join(
                own.select("process", "frame", "file", "line", "name"), on=["process", "frame"], how="left", maintain_order="left"
            )
            text = named.select(pl.when(shown).then(line).otherwise(pl.lit("")).fill_null("").alias("text"))["text"].to_list()
        return words, text


def _walk(first: Ints, further: NDArray[np.int32]) -> Ints:
    """LINES steps outwards from each node; -1 beyond the outermost."""
    steps = [first.astype(np.int64)]
    for _ in range(LINES - 1):
        at = steps[-1]
        steps.append(np.where(at >= 0, further[np.maximum(at, 0)], -1))
    return np.stack(steps, axis=1)
