"""A profile with the parts that readers compute from it: each is built at its first use, and then shared.

    @once
    def functions(profile: Tables) -> Functions: ...

    analysis = Analysis(profile)
    functions(analysis) is functions(analysis)

Code with several questions about a profile makes one Analysis and passes it on instead of the profile. The profile itself works as well,
but then every question computes its parts anew.

A part with variants takes one more argument (`once_for`): `of_samples(analysis, clock)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import polars as pl

from aiflame.profile.tables.interface import Tables

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Analysis:
    """The tables of a profile (`Tables`), and the parts built from them."""

    def __init__(self, profile: Tables) -> None:
        self.profile = profile
        self.shared = True
        """Other readers may need the same parts later. Set it to False for the last reader: then large parts are freed after their use."""
        self._parts: dict[Part[Any], Any] = {}

    @staticmethod
    def of(profile: Tables) -> Analysis:
        """The profile itself if it is an analysis; otherwise a new analysis, which nobody else uses."""
        if isinstance(profile, Analysis):
            return profile
        analysis = Analysis(profile)
        analysis.shared = False
        return analysis

    def has(self, name: str) -> bool:
        return self.profile.has(name)

    def table(self, name: str) -> pl.DataFrame:
        return self.profile.table(name)

    def scan(self, name: str) -> pl.LazyFrame:
        return self.profile.scan(name)

    def part(self, part: Part[T], build: Callable[[Analysis], T]) -> T:
        """The part; `build` builds it at its first use."""
        if part not in self._parts:
            self._parts[part] = build(self)
        value: T = self._parts[part]
        return value

    def keep(self, part: Part[T], value: T) -> None:
        """Replaces the part."""
        self._parts[part] = value

    def release(self, part: Part[Any]) -> None:
        """Frees the part; its next use builds it again."""
        self._parts.pop(part, None)

    def used(self, part: Part[Any]) -> None:
        """Frees the part, unless others share this analysis. There may be ten million launches."""
        if not self.shared:
            self.release(part)


class Part(Generic[T]):
    """A function of a profile whose result an `Analysis` keeps."""

    def __init__(self, build: Callable[[Analysis], T]) -> None:
        functools.update_wrapper(self, build)
        self._build = build

    def __call__(self, profile: Tables) -> T:
        return Analysis.of(profile).part(self, self._build)


class Parts(Generic[K, T]):
    """A function of a profile and of one more argument: an `Analysis` keeps a part for each argument."""

    def __init__(self, build: Callable[[Analysis, K], T]) -> None:
        functools.update_wrapper(self, build)
        self._build = build
        self._of: dict[K, Part[T]] = {}

    def __call__(self, profile: Tables, argument: K) -> T:
        return self.part(argument)(profile)

    def part(self, argument: K) -> Part[T]:
        """The part for one argument, to keep or release it."""
        if argument not in self._of:
            self._of[argument] = Part(lambda analysis: self._build(analysis, argument))
        return self._of[argument]


def once(build: Callable[[Analysis], T]) -> Part[T]:
    """A decorator: the function runs once for each analysis, which keeps its result."""
    return Part(build)


def once_for(build: Callable[[Analysis, K], T]) -> Parts[K, T]:
    """A decorator: the function runs once for each analysis and argument; the analysis keeps its results."""
    return Parts(build)
