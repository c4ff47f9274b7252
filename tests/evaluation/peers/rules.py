"""Rules of other tools, from their public sources and pages, on the spans of two periods.

Each takes spans as rows and gives what it would show, best first. None tests anything, so each is given a
floor under which its first row is taken for nothing. A row counts for the service that it names.

* shares (Grafana Tempo's `compare()` as Traces Drilldown orders it): spans are parted into a selection and a
  baseline, and attribute values are ordered by the difference of their shares.
* deltas (HyperDX, Event Deltas): the same of at most a thousand events of each part, without attributes that
  have nearly as many values as events; the selection is a region of the heat map of durations.
* percentiles (PostHog): an operation whose 95th percentile moved by 20 % or more, with ten spans or more in
  each period, by how far it moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import polars as pl

ATTRIBUTES: Final = ("component", "operation", "host", "status")
EVENTS: Final = 1_000
LEAST_SPANS: Final = 10
LEAST_MOVE: Final = 0.2

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
    for tool, rule in (("Tempo compare()", shares), ("HyperDX Event Deltas", deltas)):
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
        yield "PostHog p95 ±20 %", f"by {order} change", partial(percentiles, order=order)
