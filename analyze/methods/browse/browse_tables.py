"""Fill the complete tables beside a page: bins, categories, sites, hosts, errors, entries by time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from analyze.methods.browse.places import Places
from analyze.methods.browse.ranges import Ranges
from analyze.population import Population
from schemas.report.browse import BrowseTimelineSection


def _f(name: str, type_: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={"doc": doc})


CATEGORY_BINS_SCHEMA = pa.schema(
    [
        _f("category", pa.string(), "key after refinement"),
        _f("root", pa.string(), "root type"),
        _f("low_ns", pa.int64(), "bin of response time: from"),
        _f("high_ns", pa.int64(), "to, not included"),
        _f("requests", pa.int64(), "recorded requests"),
        _f("weight", pa.float64(), "the same, weighted"),
        _f("failed", pa.float64(), "weight of those whose root failed"),
    ]
)
SITES_SCHEMA = pa.schema(
    [
        _f("label", pa.string(), "edge between two trace points, or call"),
        _f("caller", pa.string(), "who calls", nullable=True),
        _f("requests", pa.int64(), "that waited for it"),
        _f("mean_us", pa.float64(), "that those waited"),
        _f("c2", pa.float64(), "squared coefficient of variation; more than 10 requests only", nullable=True),
        _f("share_of_time", pa.float64(), "of all critical time; 1 over all sites"),
        _f("failed", pa.int64(), "requests in which it failed"),
    ]
)
HOSTS_SCHEMA = pa.schema(
    [
        _f("host", pa.string(), "host"),
        _f("requests", pa.int64(), "with a node there"),
        _f("share_of_requests", pa.float64(), "weighted"),
        _f("share_of_time", pa.float64(), "of all critical time"),
        _f("per_request_us", pa.float64(), "waited for it, a request that touched it"),
        _f("failed", pa.int64(), "requests in which a node failed there"),
    ]
)
ERRORS_SCHEMA = pa.schema(
    [
        _f("error", pa.string(), "class"),
        _f("site", pa.string(), "where"),
        _f("requests", pa.int64(), "in which it did"),
        _f("share", pa.float64(), "of all, weighted"),
        _f("answered_ok", pa.float64(), "share of those whose root answered `ok`"),
        _f("first_ns", pa.int64(), "start of the first of them"),
        _f("last_ns", pa.int64(), "start of the last of them"),
    ]
)
TIMELINE_SCHEMA = pa.schema(
    [
        _f("component", pa.string(), "where requests come in"),
        _f("start_ns", pa.int64(), "part of the period: from"),
        _f("end_ns", pa.int64(), "to, not included"),
        _f("arrivals", pa.int64(), "requests that began"),
        _f("failed", pa.int64(), "of those, failed"),
        _f("mean_in_flight", pa.float64(), "requests at work"),
        _f("max_in_flight", pa.int64(), "at any instant"),
        _f("busy_share", pa.float64(), "of the time in which any was at work"),
        _f("longest_gap_us", pa.float64(), "without any, that ended here; 0: none"),
        _f("median_us", pa.float64(), "response time", nullable=True),
        _f("p99_us", pa.float64(), "response time", nullable=True),
    ]
)


def browse_tables(
    population: Population, ranges: Ranges, places: Places, timeline: BrowseTimelineSection
) -> Mapping[str, pa.Table]:
    """All tables; rows in the order of the sections."""
    return {
        "browse_categories": _category_bins(population, ranges),
        "browse_sites": pa.Table.from_pylist([row.model_dump() for row in places.sites], SITES_SCHEMA),
        "browse_hosts": pa.Table.from_pylist([row.model_dump() for row in places.hosts], HOSTS_SCHEMA),
        "browse_errors": pa.Table.from_pylist([row.model_dump() for row in places.errors], ERRORS_SCHEMA),
        "browse_timeline": _timeline(timeline),
    }


def _category_bins(population: Population, ranges: Ranges) -> pa.Table:
    bins = ranges.bins
    category, place = np.nonzero(bins.categories.n)
    graphs = [one.graph for one in population.categories]
    return pa.table(
        [
            pa.array([graphs[number].key for number in category.tolist()], pa.string()),
            pa.array([graphs[number].root for number in category.tolist()], pa.string()),
            pa.array(bins.edges_ns[place]),
            pa.array(bins.edges_ns[place + 1]),
            pa.array(bins.categories.n[category, place]),
            pa.array(bins.categories.weight[category, place]),
            pa.array(bins.categories.failed[category, place]),
        ],
        schema=CATEGORY_BINS_SCHEMA,
    )


_BY_TIME = (
    "arrivals",
    "failed",
    "mean_in_flight",
    "max_in_flight",
    "busy_share",
    "longest_gap_us",
    "median_us",
    "p99_us",
)


def _timeline(section: BrowseTimelineSection) -> pa.Table:
    rows = [
        {
            "component": entry.component,
            "start_ns": entry.edges_ns[place],
            "end_ns": entry.edges_ns[place + 1],
            **{name: getattr(entry, name)[place] for name in _BY_TIME},
        }
        for entry in section.entries
        for place in range(len(entry.arrivals))
        if entry.watched[place]
    ]
    return pa.Table.from_pylist(rows, TIMELINE_SCHEMA)
