"""Traces written by hand, through the kernel and the refinement, to populations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from oracles.span_events import T0

from analyze.population import Category, Population
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from schemas.config import StitchConfig
from schemas.events import EVENT_SCHEMA, EventKind
from stitch.kernel import stitch

MINUTE_NS = 60 * 10**9
US = 1_000


@dataclass(frozen=True)
class Call:
    """A span: `component/point`, times in µs since the start of the request, and the spans below it."""

    name: str
    start: float
    end: float
    calls: tuple[Call, ...] = ()
    host: str | None = None
    kind: EventKind = EventKind.SPAN_INTERNAL
    status: str = "ok"
    marks: tuple[float, ...] = ()
    """Times of span events `mark` inside the span."""


def call(name: str, start: float, end: float, *calls: Call, **fields: object) -> Call:
    return Call(name, start, end, calls, **fields)  # type: ignore[arg-type]


def event(**fields: object) -> dict[str, object]:
    """A row of an event batch with defaults for what is not given."""
    row: dict[str, object] = dict.fromkeys(EVENT_SCHEMA.names)
    return row | {"component": "app", "point": "?", "shared": False, "status": "ok"} | fields


def request_events(request: Call, trace: str, at_ns: int) -> list[dict[str, object]]:
    """Rows of one request's spans."""
    rows: list[dict[str, object]] = []

    def visit(span: Call, parent: str | None) -> None:
        own = f"{len(rows) + 1:016x}"
        component, point = span.name.split("/", 1)
        rows.append(
            event(
                kind=int(span.kind),
                request_id=trace,
                id=own,
                parents=None if parent is None else [parent],
                ts_ns=at_ns + round(span.start * US),
                end_ns=at_ns + round(span.end * US),
                component=component,
                point=point,
                host=span.host,
                status=span.status,
                marks=[{"ts_ns": at_ns + round(at * US), "name": "mark"} for at in span.marks] or None,
            )
        )
        for below in span.calls:
            visit(below, own)

    visit(request, None)
    return rows


def table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=EVENT_SCHEMA)


def stored(periods: Sequence[pa.Table]) -> tuple[pa.Table, pa.Table]:
    """(flows with `sample`, structures) of one event batch a period."""
    flows, structures = [], []
    for number, events in enumerate(periods):
        stitched = stitch(events, StitchConfig())
        flows.append(
            stitched.flows.append_column(
                "sample", pa.array(np.full(stitched.flows.num_rows, number, np.uint8))
            )
        )
        structures.append(stitched.structures)
    return pa.concat_tables(flows).unify_dictionaries(), pa.concat_tables(structures)


def population(
    reference: Sequence[Call], problem: Sequence[Call] = (), settings: RefineSettings | None = None
) -> Population:
    """The refined population of span requests; request i starts i seconds into its period."""
    batches = [
        table(
            [
                row
                for number, request in enumerate(requests)
                for row in request_events(
                    request, f"{period:08x}{number:024x}", T0 + period * 60 * MINUTE_NS + number * 10**9
                )
            ]
        )
        for period, requests in enumerate((reference, problem))
    ]
    return refine(*stored(batches), settings or RefineSettings())


def edge_labels(category: Category) -> set[tuple[str, str]]:
    """Edges as pairs of display labels."""
    labels = category.graph.labels
    return {(labels[src], labels[dst]) for src, dst in category.graph.edges.tolist()}


def only(population: Population) -> Category:
    """The single category of a population."""
    (category,) = population.categories
    return category
