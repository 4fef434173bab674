"""Steps of inference: repeated calls of the model by a thread. Finds out which of them read prompts, and which decode."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.phases import Phase
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

FEWEST = 3
"""Fewer calls do not count as repetition."""
MOSTLY = 0.5
"""Steps must take a larger share of the time in all calls of models. They must also hold a larger share of the program's work while they
repeat; otherwise they do not represent the program."""


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """Recorded calls of outermost modules in one thread, in the order of time."""

    begin_ns: Ints
    end_ns: Ints
    layer: Ints
    sequences: Ints
    tokens: Ints
    """Tokens in the arguments, of all sequences together; both numbers are 0 if they are unknown."""

    def __len__(self) -> int:
        return len(self.begin_ns)

    def at(self, kept: Ints | Mask) -> ModelCalls:
        return ModelCalls(*(getattr(self, field.name)[kept] for field in fields(self)))

    def repeated(self) -> ModelCalls:
        """The calls that repeat: turns of different models that are always called one after the other, each turn as one call; or calls of
        the model that takes most of the time, together with those of the encoder that reads prompts for it; otherwise none."""
        if not len(self):
            return self
        turn = int(np.argmax(np.append(self.layer[1:] == self.layer[0], True))) + 1
        whole = len(self) // turn
        layers, which = np.unique(self.layer, return_inverse=True)
        if len(layers) == turn > 1 and whole >= FEWEST and (self.layer[turn:] == self.layer[:-turn]).all():
            return self._turns(turn, whole)
        took = np.bincount(which, self.end_ns - self.begin_ns)
        main = which == np.argmax(took)
        only_decodes = ((self.tokens == self.sequences) & (self.tokens > 0))[main].all()
        reads = (self.tokens > self.sequences) & only_decodes
        if np.count_nonzero(main) < FEWEST or took[np.unique(which[main | reads])].sum() <= MOSTLY * took.sum():
            return self.at(main & False)
        return self.at(main | reads)

    def _turns(self, turn: int, whole: int) -> ModelCalls:
        """Merges the calls of a turn. Its tokens are those of the model that takes longest."""
        took = (self.end_ns - self.begin_ns)[: whole * turn].reshape(whole, turn).sum(axis=0)
        first = np.arange(whole) * turn
        main = self.at(first + int(np.argmax(took)))
        return ModelCalls(self.begin_ns[first], self.end_ns[first + turn - 1], main.layer, main.sequences, main.tokens)

    def phases(self) -> Ints:
        """PREFILL for calls with several tokens of a sequence, DECODE for calls with one token of each, if a program does both and mostly
        decodes; otherwise 0."""
        prefill, decode = self.tokens > self.sequences, (self.tokens == self.sequences) & (self.tokens > 0)
        several, one = int(prefill.sum()), int(decode.sum())
        if not several or one < FEWEST or one < several:
            return np.zeros(len(self), dtype=np.int64)
        return np.where(prefill, int(Phase.PREFILL), np.where(decode, int(Phase.DECODE), 0))

    def ends_of_steps(self, phase: Ints) -> Ints:
        """A step is a call. If the next call decodes, the step lasts until that begins: work in between chooses the next token."""
        followed = np.append((phase[1:] == Phase.DECODE) & (phase[:-1] > 0), False)[: len(self)]
        return np.where(followed, np.append(self.begin_ns[1:], 0)[: len(self)], self.end_ns)


def model_calls(profile: Tables, process: int) -> dict[int, ModelCalls]:
    """The calls of each thread that has some."""
    if not profile.has("model_calls"):
        return {}
    rows = (
        profile.scan("model_calls")
        .filter(pl.col("process") == process)
        .with_columns(pl.col("begin_ns", "end_ns").clip(upper_bound=LATEST))
        .filter(pl.col("begin_ns") < pl.col("end_ns"))
        .sort("thread", "begin_ns", "end_ns")
        .collect()
    )
    names = [field.name for field in fields(ModelCalls)]
    threads = rows.partition_by("thread", as_dict=True)
    return {int(thread): ModelCalls(*(own[name].cast(pl.Int64).to_numpy() for name in names)) for (thread,), own in threads.items()}


def hold_the_work(begin: Ints, end: Ints, work_ns: Ints) -> bool:
    """True if steps hold most of the work that was done from the first step to the last; `work_ns`: moments of work."""
    spanned = work_ns[(work_ns >= begin[0]) & (work_ns < end[-1])]
    at = np.searchsorted(begin, spanned, side="right") - 1
    return not len(spanned) or float((spanned < end[at]).mean()) >= MOSTLY
