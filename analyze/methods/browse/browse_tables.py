"""Fill the complete tables beside a page: bins, categories, sites, hosts, errors, entries by time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from analyze.methods.browse.places import SitesAndHosts
from analyze.methods.browse.ranges import Ranges
from analyze.methods.browse.sections import ERRORS, HOSTS, SITES
from analyze.population import Population
from schemas.report.browse import BrowseTimelineSection
from schemas.report.columns import arrow_schema, arrow_table, stored

CATEGORY_BINS: Final = (
    stored("category", "key", "key after refinement"),
    stored("root", "name", "root type"),
    stored("low_ns", "count", "bin of response time: from"),
    stored("high_ns", "count", "to, not included"),
    stored("requests", "count", "recorded requests"),
    stored("weight", "number", "the same, weighted"),
    stored("failed", "number", "weight of those whose root failed"),
)
TIMELINE: Final = (
    stored("component", "name", "where requests come in"),
    stored("start_ns", "count", "part of the period: from"),
    stored("end_ns", "count", "to, not included"),
    stored("arrivals", "count", "requests that began"),
    stored("failed", "count", "of those, failed"),
    stored("mean_in_flight", "number", "requests at work"),
    stored("max_in_flight", "count", "at any instant"),
    stored("busy_share", "share", "of the time in which any was at work"),
    stored("longest_gap_us", "us", "without any, that ended here; 0: none"),
    stored("median_us", "us", "response time", null=True),
    stored("p99_us", "us", "response time", null=True),
)


def browse_tables(
    population: Population, ranges: Ranges, places: SitesAndHosts, timeline: BrowseTimelineSection
) -> Mapping[str, pa.Table]:
    """All tables; rows in the order of the sections."""
    return {
        "browse_categories": _category_bins(population, ranges),
        "browse_sites": arrow_table(SITES, places.sites),
        "browse_hosts": arrow_table(HOSTS, places.hosts),
        "browse_errors": arrow_table(ERRORS, places.errors),
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
        schema=arrow_schema(CATEGORY_BINS),
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
    return pa.Table.from_pylist(rows, arrow_schema(TIMELINE))
