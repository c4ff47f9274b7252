"""Random populations for properties of sites: spans and records, with failures, weights, late children."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from oracles.refined import Call, population, stored
from oracles.strategies import record_rows, sometimes, table_of

from analyze.population import Population
from analyze.profile.profile import Slot
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from schemas.events import EventKind

SETTINGS = RefineSettings(min_traces=2, min_unanimous=2, host_policy="none", correct_skew=False)
KINDS = {
    "a/x": EventKind.SPAN_INTERNAL,
    "a/y": EventKind.SPAN_CLIENT,
    "b/z": EventKind.SPAN_SERVER,
    "c/late": EventKind.SPAN_UNSPECIFIED,
}
Tree = tuple[str, tuple["Tree", ...]]


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Tree:
    """A tree of operations in which some branches occur several times, and calls call themselves."""
    below = draw(st.lists(trees(depth=depth - 1), max_size=2)) if depth else []
    copies = tuple(tree for tree in below for _ in range(draw(st.integers(1, 3))))
    return draw(st.sampled_from(["a/x", "a/y", "b/z"])), copies


def timed(rng: np.random.Generator, tree: Tree, start: int, end: int, top: bool = True) -> Call:
    """Spans of a tree, their times within their parents' or not; some fail, some come back too late."""
    name, children = tree
    below = []
    for child in children:
        first = int(rng.integers(start, end + 1))
        past = int(rng.integers(first, end + 1 if rng.random() < 0.9 else end + 40))
        below.append(timed(rng, child, first, past, top=False))
    if rng.random() < 0.15:
        below.append(Call("c/late", start, end + 1000, (), None, KINDS["c/late"]))
    status = "timeout" if rng.random() < 0.15 else "ok"
    marks = (float(rng.integers(start, end + 1)),) if rng.random() < 0.15 else ()
    return Call(name, start, end, tuple(below), str(rng.choice(["h1", "h2"])), KINDS[name], status, marks)


@st.composite
def span_populations(draw: st.DrawFn) -> Population:
    """Requests of few trees, so that some categories hold several, in two periods."""
    shapes = draw(st.lists(trees(), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    periods = [
        [timed(rng, shapes[int(rng.integers(len(shapes)))], 0, int(rng.integers(0, 300))) for _ in range(n)]
        for n in (draw(st.integers(1, 6)), draw(st.integers(0, 6)))
    ]
    return weighted(population(periods[0], periods[1], SETTINGS), rng)


@st.composite
def record_populations(draw: st.DrawFn) -> Population:
    """Requests of few programs in two periods; times of one program's requests differ."""
    programs = [
        draw(record_rows(tidy=True, request_id=f"r{number}")) for number in range(draw(st.integers(1, 2)))
    ]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    batches = [
        table_of(
            [
                row
                for number in range(draw(st.integers(1 - period, 5)))
                for row in _again(
                    rng,
                    programs[int(rng.integers(len(programs)))],
                    f"p{period}n{number}",
                    period * 3600 * 10**9 + number * 10**9,
                    failing=sometimes(draw, 3),
                )
            ]
        )
        for period in (0, 1)
    ]
    return weighted(refine(*stored(batches), SETTINGS), rng)


def _again(
    rng: np.random.Generator, rows: Sequence[dict[str, Any]], request: str, at_ns: int, *, failing: bool
) -> list[dict[str, Any]]:
    """A program's records as another request: order of the records as it was."""
    stretch = int(rng.integers(1, 50))
    new = []
    for row in rows:
        crumb = f"{request}.{row['breadcrumb']}"
        links = None if row.get("links") is None else [f"{request}.{link}" for link in row["links"]]
        status = "error" if failing and rng.random() < 0.3 else "ok"
        told = {"request_id": request, "breadcrumb": crumb, "links": links, "status": status}
        new.append(row | told | {"ts_ns": at_ns + row["ts_ns"] * stretch})
    return new


def weighted(found: Population, rng: np.random.Generator) -> Population:
    """The population with other sampling weights."""
    if rng.random() < 0.5:
        return found
    return replace(
        found,
        categories=tuple(
            replace(category, weight=rng.choice([1.0, 2.0, 5.0], category.n_requests))
            for category in found.categories
        ),
    )


def all_slots(found: Population, pieces: int) -> list[Slot]:
    """Every sample cut into pieces of equal time; together they hold every request."""
    slots = []
    for number in range(2):
        starts = [
            int(start)
            for category in found.categories
            for start in category.start_ns[category.rows(number)].tolist()
        ]
        if not starts:
            continue
        first, past = min(starts), max(starts) + 1
        bounds = [first + (past - first) * piece // pieces for piece in range(pieces + 1)]
        slots += [Slot(number, a, b) for a, b in itertools.pairwise(bounds) if a < b]
    return slots
