"""Inference in one line: the duration of the model's steps, and the tokens a second, if tokens are known."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.attribute.arrays.order import in_order
from aiflame.attribute.meaning.phases import Phase
from aiflame.values import asdict, dataclass

NO_CACHE = 0.9
"""A share of all steps: those that are given exactly one token of each sequence more than the previous step."""
FEW_STEPS = 10
"""Fewer steps do not show whether inputs grow."""
MANY_STEPS = 100
"""With fewer steps, the 99th percentile is the slowest step."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Steps of one kind: decode, prefill or others."""

    steps: int
    median_ns: int
    """From the begin of a step to its end, or if a decode step follows, to that step's begin. Without steps that warm up."""
    sequences: int
    """The number of sequences in each step; 0: it varies, or is unknown."""
    tokens_per_s: float
    """Tokens that decoding produced, or that prefills read; 0: unknown."""
    p99_ns: int
    """One of 100 steps takes longer than this; 0: there are too few steps."""

    @property
    def text(self) -> str:
        if self.steps == 1:
            return amount(self.median_ns, "ns")
        return f"median {amount(self.median_ns, 'ns')}" + (f", p99 {amount(self.p99_ns, 'ns')}" if self.p99_ns else "")


@dataclass(frozen=True, slots=True)
class Growth:
    """Steps that are given all earlier tokens again, and one more; and the cost of these tokens."""

    steps: int
    few_tokens: int
    few_ns: int
    many_tokens: int
    many_ns: int
    """Median of the tenth of the steps with fewest tokens in a sequence, and of the tenth with most."""
    more_ns: int
    """How much longer all steps together took than if each had as few tokens."""


@dataclass(frozen=True, slots=True)
class Inference:
    """The inference of the process whose steps take longest."""

    decode: Kind | None
    prefill: Kind | None
    other: Kind | None
    """Steps of which it is unknown whether they decode."""
    requests: int
    """The number of prefills that are each followed by decode steps for the same number of sequences; 0: unknown, because requests are
    batched anew in each step."""
    growing: bool
    """Each step is given all earlier tokens again, and one more: no cache holds keys and values."""
    growth: Growth | None
    """The cost of growing steps."""

    @property
    def text(self) -> str:
        parts = []
        if self.decode is not None:
            one = self.decode
            of = f" for {one.sequences:,} sequences" if one.sequences > 1 else ""
            parts.append(f"{_counted(one.steps, 'decode step')}, {one.text} ({_rate(one.tokens_per_s)} tokens/s{of})")
        if self.prefill is not None:
            one = self.prefill
            name = f"{self.requests:,} requests with a prefill each" if self.requests > 1 else _counted(one.steps, "prefill")
            parts.append(f"{name}, {one.text} ({_rate(one.tokens_per_s)} tokens/s)")
        if self.other is not None:
            one = self.other
            again = ", each given all tokens again and one more" if self.growing else ""
            parts.append(f"{_counted(one.steps, 'call')} of the model, {one.text} ({_rate(1e9 / max(one.median_ns, 1))} a second){again}")
        return "; ".join(parts)

    def to_json(self) -> dict[str, object]:
        return {"text": self.text, **asdict(self)}


def inference(steps: pl.DataFrame, times: pl.DataFrame, first: dict[int, int]) -> Inference | None:
    """`steps`: `meaning.steps.Steps.rows`; `times`: STEP_TIMES; `first`: the first steady step of each process. None: the program trains,
    or has no steps."""
    of_steps = steps.filter(pl.col("called_ns") > 0).select(pl.col("process", "step").cast(pl.Int64), "phase", "sequences", "tokens")
    rows = _beside(times, in_order(of_steps, "process", "step"))
    if rows.is_empty():
        return None
    summed = rows.group_by("process").agg(pl.col("took").sum()).sort("took", "process", descending=[True, False])
    main = int(summed["process"][0])
    following = pl.col("phase").shift(-1) == int(Phase.DECODE)
    to_next = pl.col("begin_ns").shift(-1) - pl.col("begin_ns")
    rows = rows.filter(process=main).with_columns(took=pl.when(following & (pl.col("phase") > 0)).then(to_next).otherwise("took"))
    warm = first.get(main, 0)
    decode, prefill, other = (_kind(rows.filter(phase=phase), warm, phase) for phase in (int(Phase.DECODE), int(Phase.PREFILL), 0))
    growing = _growing(rows)
    return Inference(decode, prefill, other, _requests(rows), growing, _growth(rows.filter(pl.col("step") >= warm)) if growing else None)


def _beside(times: pl.DataFrame, of_steps: pl.DataFrame) -> pl.DataFrame:
    """Joins rows that are sorted by process and step. If each step has a row in both, millions of rows need no real join."""
    times = times.select("process", "step", "begin_ns", "took")
    key = ["process", "step"]
    if len(times) == len(of_steps) and times.select(key).equals(of_steps.select(key)):
        return times.hstack(of_steps.drop(key))
    return times.join(of_steps, on=key).sort(key)


def _kind(rows: pl.DataFrame, warm: int, phase: int) -> Kind | None:
    if rows.is_empty():
        return None
    usual = rows.filter(pl.col("step") >= warm)
    usual = rows if usual.is_empty() else usual
    median = round(float(usual.select(pl.col("took").median()).item()))
    sequences = int(usual["sequences"][0]) if usual["sequences"].n_unique() == 1 else 0
    rate = 0.0
    if phase == Phase.DECODE and sequences:
        rate = sequences * 1e9 / max(median, 1)
    elif phase:
        rate = int(usual["tokens"].sum()) * 1e9 / max(int(usual["took"].sum()), 1)
    slow = usual["took"].quantile(0.99, "nearest") if len(usual) >= MANY_STEPS else None
    return Kind(len(rows), median, sequences, rate, int(slow or 0))


def _requests(rows: pl.DataFrame) -> int:
    """`Inference.requests`"""
    prefill, before = pl.col("phase") == int(Phase.PREFILL), pl.col("phase").shift(1)
    follows = rows.with_columns(
        again=prefill & (before == int(Phase.PREFILL)),
        changed=(pl.col("phase") == int(Phase.DECODE)) & (pl.col("sequences") != pl.col("sequences").shift(1)),
    )
    unclear = bool(follows.select((pl.col("again") | pl.col("changed")).any()).item())
    return 0 if unclear else int(rows.select(prefill.sum()).item())


def _growing(rows: pl.DataFrame) -> bool:
    plain = rows.filter((pl.col("phase") == 0) & (pl.col("sequences") > 0))
    if len(plain) < FEW_STEPS:
        return False
    one_more = (pl.col("tokens") - pl.col("tokens").shift(1)) == pl.col("sequences")
    return bool(plain.select(one_more.sum() >= NO_CACHE * (pl.len() - 1)).item())


def _growth(rows: pl.DataFrame) -> Growth | None:
    plain = rows.filter((pl.col("phase") == 0) & (pl.col("sequences") > 0))
    if len(plain) < FEW_STEPS:
        return None
    ordered = plain.select("took", tokens=pl.col("tokens") // pl.col("sequences")).sort("tokens", "took")
    tenth = max(len(ordered) // 10, 1)
    (few_tokens, few_ns), (many_tokens, many_ns) = (
        part.select(pl.col("tokens").median().cast(pl.Int64), pl.col("took").median().cast(pl.Int64)).row(0)
        for part in (ordered.head(tenth), ordered.tail(tenth))
    )
    more = int(ordered["took"].sum()) - len(ordered) * few_ns
    return Growth(len(ordered), few_tokens, few_ns, many_tokens, many_ns, max(more, 0))


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}{'s' if count != 1 else ''}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
