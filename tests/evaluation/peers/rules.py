"""Rules of other tools, from their public sources and pages, on the spans of two periods.

Each takes spans as rows and gives what it would show, best first. None tests anything, so each is given a
floor under which its first row is taken for nothing. A row counts for the service that it names.

* shares (Grafana Tempo's `compare()` as Traces Drilldown orders it): spans are parted into a selection and a
  baseline, and attribute values are ordered by the difference of their shares.
* deltas (HyperDX, Event Deltas): the same of at most a thousand events of each part, without attributes that
  have nearly as many values as events; the selection is a region of the heat map of durations.
* properties (HyperDX): the same with properties in the order of their largest difference, each with the value
  that has it.
* percentiles (PostHog's alert): an operation whose 95th percentile moved by 20 % or more, with ten spans or
  more in each period, by how far it moved.
* statistics (PostHog's table of two periods): every operation with its numbers of both, ordered by the change
  of one column.
* self_times: the rule to beat. Time of a call that no call below it covers, by caller and operation, ordered
  by the change of its mean.
* MicroRank (Yu et al., WWW 2021): traces are abnormal whose time is over what their operations usually take;
  personalized PageRank of operations among abnormal and among ordinary traces weighs a spectrum (Ochiai).
* TraceRCA (Li et al., IWQoS 2021), as far as its page says: calls beyond three standard deviations of the
  reference, or failing, are abnormal, and so are their traces; a service by the part of abnormal traces with
  such a call of it, and the part of its traces that are abnormal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
import polars as pl

from schemas.arrays import F8, I8

ATTRIBUTES: Final = ("component", "operation", "host", "status")
EVENTS: Final = 1_000
LEAST_SPANS: Final = 10
LEAST_MOVE: Final = 0.2
SIGMAS: Final = 3.0
"""Standard deviations from which a call, or a trace, is abnormal."""
DAMPING, CALLS_WEIGHT, STEPS = 0.85, 0.01, 25
"""Parameters of MicroRank's PageRank, as published."""

WHOLE: Final = ("period", "roots")
"""Selections that are a period, held against the other."""

Selection = Literal["period", "slow", "failing", "roots", "slow roots"]
PLAIN: Final[tuple[Selection, ...]] = ("period", "roots", "failing")
SLOW: Final[tuple[Selection, ...]] = ("slow", "slow roots")
"""Those that need a quantile."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One row that a tool shows."""

    attribute: str
    value: str
    score: float


Rule = Callable[[pl.DataFrame, pl.DataFrame], list[Shown]]


def shares(
    reference: pl.DataFrame, problem: pl.DataFrame, selection: Selection, quantile: float
) -> list[Shown]:
    """Attribute values by the difference of their shares between a selection and its baseline."""
    chosen, rest = _parted(reference, problem, selection, quantile)
    return _differences(chosen, rest, ATTRIBUTES, both_ways=selection in WHOLE)


def deltas(
    reference: pl.DataFrame, problem: pl.DataFrame, selection: Selection, quantile: float
) -> list[Shown]:
    """The same of a sample of each, the baseline being everything else in both periods."""
    chosen, rest = _parted(reference, problem, selection, quantile)
    parts = [part.sample(min(EVENTS, part.height), seed=0) for part in (chosen, rest)]
    both = pl.concat(parts)
    kept = [name for name in ATTRIBUTES if both[name].n_unique() < 0.9 * max(1, both.height)]
    return _differences(parts[0], parts[1], kept, both_ways=selection in WHOLE)


def percentiles(reference: pl.DataFrame, problem: pl.DataFrame, order: str) -> list[Shown]:
    """Operations whose 95th percentile moved by `LEAST_MOVE` or more; `order`: a column below."""
    sides = [
        spans.group_by("operation").agg(
            pl.len().alias("n"), pl.col("duration_us").quantile(0.95).alias("p95")
        )
        for spans in (reference, problem)
    ]
    moved = (
        sides[0]
        .join(sides[1], on="operation", suffix="1")
        .filter((pl.col("n") >= LEAST_SPANS) & (pl.col("n1") >= LEAST_SPANS) & (pl.col("p95") > 0))
        .with_columns((pl.col("p951") - pl.col("p95")).alias("absolute"))
        .with_columns((pl.col("absolute") / pl.col("p95")).alias("relative"))
        .with_columns((pl.col("absolute") * pl.col("n1")).alias("summed"))
        .filter(pl.col("relative").abs() >= LEAST_MOVE)
        .sort(pl.col(order).abs(), pl.col("operation"), descending=[True, False])
    )
    rows = moved.select("operation", "relative").iter_rows()
    return [Shown("operation", operation, abs(relative)) for operation, relative in rows]


def properties(
    reference: pl.DataFrame, problem: pl.DataFrame, selection: Selection, quantile: float
) -> list[Shown]:
    """Properties by their largest difference, each with the value that has it."""
    first: dict[str, Shown] = {}
    for row in deltas(reference, problem, selection, quantile):
        first.setdefault(row.attribute, row)
    return list(first.values())


def statistics(reference: pl.DataFrame, problem: pl.DataFrame, order: str) -> list[Shown]:
    """Operations of both periods by the change of a column; a rate of errors by its points."""
    sides = [
        spans.group_by("operation").agg(
            (pl.len() / spans["request_id"].n_unique()).alias("calls"),
            (pl.col("status") != "ok").mean().alias("errors"),
            pl.col("duration_us").mean().alias("mean"),
            pl.col("duration_us").quantile(0.95).alias("p95"),
        )
        for spans in (reference, problem)
    ]
    both = sides[0].join(sides[1], on="operation", how="full", coalesce=True, suffix="1").fill_null(0.0)
    change = pl.col(f"{order}1") - pl.col(order)
    score = change if order == "errors" else change / pl.max_horizontal(order, f"{order}1", pl.lit(1e-9))
    rows = both.select("operation", score.abs().alias("score")).sort(
        "score", "operation", descending=[True, False]
    )
    return [Shown("operation", operation, score) for operation, score in rows.iter_rows()]


def self_times(reference: pl.DataFrame, problem: pl.DataFrame, order: str) -> list[Shown]:
    """Call sites by the change of their mean self time: of a call, relative or not, or of a request."""
    sides = [_self_times(spans) for spans in (reference, problem)]
    both = sides[0].join(sides[1], on=["caller", "operation"], how="full", coalesce=True, suffix="1")
    both = both.fill_null(0.0)
    change = {
        "absolute": pl.col("call1") - pl.col("call"),
        "relative": (pl.col("call1") - pl.col("call")) / pl.max_horizontal("call", pl.lit(1.0)),
        "of a request": pl.col("request1") - pl.col("request"),
    }[order]
    rows = both.select("operation", change.abs().alias("score")).sort(
        "score", "operation", descending=[True, False]
    )
    # Of the response time, so that one floor fits all systems.
    scale = 1.0 if order == "relative" else 1 / max(_response_us(reference), 1e-300)
    return [Shown("operation", name, score * scale) for name, score in rows.iter_rows()]


def _self_times(spans: pl.DataFrame) -> pl.DataFrame:
    """(caller, operation, self time a call, self time a request of the period), µs."""
    below = spans.group_by("request_id", pl.col("parent").alias("position")).agg(
        pl.col("duration_us").sum().alias("below")
    )
    callers = spans.select(
        "request_id", pl.col("position").alias("parent"), pl.col("operation").alias("caller")
    )
    own = (pl.col("duration_us") - pl.col("below").fill_null(0.0)).clip(0.0)
    return (
        spans.join(below, on=["request_id", "position"], how="left")
        .join(callers, on=["request_id", "parent"], how="left")
        .with_columns(pl.col("caller").fill_null(""))
        .group_by("caller", "operation")
        .agg(own.mean().alias("call"), (own.sum() / spans["request_id"].n_unique()).alias("request"))
    )


def _response_us(spans: pl.DataFrame) -> float:
    return float(np.mean(spans.filter(pl.col("parent").is_null())["duration_us"].to_numpy()))


def micro_rank(reference: pl.DataFrame, problem: pl.DataFrame) -> list[Shown]:
    """Operations by MicroRank's weighted spectrum."""
    usual = reference.group_by("operation").agg(
        pl.col("duration_us").mean().alias("mean"), pl.col("duration_us").std().fill_null(0.0).alias("sd")
    )
    foreseen = (
        problem.join(usual, on="operation")
        .group_by("request_id")
        .agg((pl.col("mean") + SIGMAS * pl.col("sd")).sum().alias("most"), pl.col("duration_us").max())
    )
    bad = foreseen.filter(pl.col("duration_us") > pl.col("most"))["request_id"]
    abnormal = problem.filter(pl.col("request_id").is_in(bad.implode()))
    ordinary = problem.filter(~pl.col("request_id").is_in(bad.implode()))
    if not abnormal.height:
        return []
    if not ordinary.height:  # all are abnormal: ordinary ones are those of the reference
        ordinary = reference
    operations = pl.concat([abnormal, ordinary])["operation"].unique().sort().to_list()
    (p_bad, in_bad, n_bad), (p_ok, in_ok, _) = (_page_rank(part, operations) for part in (abnormal, ordinary))
    ef, nf, ep = p_bad * in_bad, p_bad * (n_bad - in_bad), p_ok * in_ok
    score = ef / np.sqrt(np.maximum((ef + nf) * (ef + ep), 1e-300))
    order = sorted(range(len(operations)), key=lambda at: (-score[at], operations[at]))
    return [Shown("operation", operations[at], float(score[at])) for at in order]


def _page_rank(spans: pl.DataFrame, operations: Sequence[str]) -> tuple[F8, I8, int]:
    """([operations] weight, [operations] traces that have it, number of traces)."""
    number = {name: at for at, name in enumerate(operations)}
    pairs = spans.select("request_id", "operation").unique()
    traces = {name: at for at, name in enumerate(pairs["request_id"].unique().sort().to_list())}
    trace = np.array([traces[name] for name in pairs["request_id"].to_list()])
    operation = np.array([number[name] for name in pairs["operation"].to_list()])
    kinds, covers = np.bincount(trace), np.bincount(operation, minlength=len(operations))
    callers = spans.select("request_id", pl.col("position").alias("parent"), pl.col("operation").alias("by"))
    calls = spans.join(callers, on=["request_id", "parent"]).select("by", "operation").unique()
    called = np.zeros((len(operations), len(operations)))
    for by, name in calls.iter_rows():
        called[number[name], number[by]] = 1.0
    called /= np.maximum(called.sum(axis=0), 1.0)
    wished = 1 / kinds / (1 / kinds).sum()
    of_trace, of_operation = wished.copy(), np.full(len(operations), 1 / len(operations))
    for _ in range(STEPS):
        from_traces = np.bincount(operation, of_trace[trace] / kinds[trace], minlength=len(operations))
        shared = of_operation[operation] / covers[operation]
        of_trace = DAMPING * np.bincount(trace, shared, minlength=len(kinds)) + (1 - DAMPING) * wished
        of_operation = DAMPING * (from_traces + CALLS_WEIGHT * called @ of_operation)
        of_trace, of_operation = of_trace / of_trace.max(), of_operation / of_operation.max()
    return of_operation, covers, len(kinds)


def trace_rca(reference: pl.DataFrame, problem: pl.DataFrame) -> list[Shown]:
    """Services by support and confidence: their harmonic mean."""
    usual = reference.group_by("operation").agg(
        pl.col("duration_us").mean().alias("mean"), pl.col("duration_us").std().fill_null(0.0).alias("sd")
    )
    odd = (pl.col("duration_us") > pl.col("mean") + SIGMAS * pl.col("sd")) | (pl.col("status") != "ok")
    called = problem.join(usual, on="operation").with_columns(odd.alias("odd"))
    bad = called.filter("odd")["request_id"].unique()
    rows = []
    for name in called["component"].unique().sort().to_list():
        mine = called.filter(pl.col("component") == name)
        odd_here = mine.filter("odd")["request_id"].n_unique()
        if odd_here:
            through = mine["request_id"].unique()
            support, confidence = odd_here / len(bad), through.is_in(bad.implode()).sum() / len(through)
            rows.append(Shown("component", name, 2 * support * confidence / (support + confidence)))
    return sorted(rows, key=lambda row: (-row.score, row.value))


def _parted(
    reference: pl.DataFrame, problem: pl.DataFrame, selection: Selection, quantile: float
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(selection, baseline): of a period all spans, else those of both periods parted by what they are."""
    if "roots" in selection:
        reference, problem = (spans.filter(pl.col("parent").is_null()) for spans in (reference, problem))
    if selection in WHOLE:
        return problem, reference
    if selection == "failing":
        picked = pl.col("status") != "ok"
    else:
        picked = pl.col("duration_us") > (reference["duration_us"].quantile(quantile) or 0.0)
    return problem.filter(picked), pl.concat([reference, problem.filter(~picked)])


def _differences(
    chosen: pl.DataFrame, rest: pl.DataFrame, attributes: Sequence[str], *, both_ways: bool
) -> list[Shown]:
    """Values by the difference of their shares; of a selection those that are more frequent in it."""
    if not chosen.height or not rest.height:
        return []
    rows = []
    for name in attributes:
        sides = [part.group_by(name).agg((pl.len() / part.height).alias("share")) for part in (chosen, rest)]
        both = sides[0].join(sides[1], on=name, how="full", coalesce=True, suffix="1").fill_null(0.0)
        rows += [
            Shown(name, value, abs(one - other))
            for value, one, other in both.select(name, "share", "share1").iter_rows()
            if value is not None and (both_ways or one > other)
        ]
    return sorted(rows, key=lambda row: (-row.score, row.attribute, row.value))


def settings() -> Iterator[tuple[str, str, Rule]]:
    """(tool, setting, rule) of all that are tried; a tool is given the one that serves it best."""
    by_values = (
        ("Tempo compare()", shares),
        ("HyperDX Event Deltas, by value", deltas),
        ("HyperDX Event Deltas, by property", properties),
    )
    for tool, rule in by_values:
        for selection in PLAIN:
            yield tool, selection, partial(rule, selection=selection, quantile=0.0)
        for selection in SLOW:
            for quantile in (0.9, 0.95, 0.99):
                yield (
                    tool,
                    f"{selection}, over the reference's {quantile:.0%} quantile",
                    partial(rule, selection=selection, quantile=quantile),
                )
    for order in ("relative", "absolute", "summed"):
        yield "PostHog alert, p95 ±20 %", f"by {order} change", partial(percentiles, order=order)
    for order in ("p95", "mean", "errors", "calls"):
        yield "PostHog compare table", f"by change of {order}", partial(statistics, order=order)
    for order in ("absolute", "of a request"):
        yield "self time by call site", f"{order}", partial(self_times, order=order)
    yield "self time by call site, relative", "of a call", partial(self_times, order="relative")
    yield "MicroRank", "as published", micro_rank
    yield "TraceRCA-like", "three standard deviations", trace_rca
