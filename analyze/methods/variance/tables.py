"""Fill the complete tables beside a report: sites, categories, parts of those that were looked into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from analyze.methods.variance.markers import MarkedLabels
from analyze.methods.variance.request_groups import NOWHERE
from analyze.methods.variance.rows import MARKER, SPREAD, Looked, edge_rows
from analyze.methods.variance.variance_decomposition import SampleVariance
from analyze.population import Population
from analyze.profile.times import AllPathTimes
from schemas.report.columns import arrow_schema, stored
from schemas.report.variance import VariableCategory

_CATEGORIES_SCHEMA: Final = arrow_schema(
    (
        stored("rank", "place", "from 1"),
        stored("category", "key", "key after refinement; null: rare ones of a root type", null=True),
        stored("root", "name", "root type"),
        stored("members", "count", "categories in it"),
        *SPREAD,
        stored("c2_residual", "number", "without marked sources", null=True),
        stored("impact", "share", "p·σ²/Var(T): part of the variance, within paths"),
    )
)
_PARTS_SCHEMA: Final = arrow_schema(
    (
        stored("category", "key", "key after refinement; null: rare ones of a root type", null=True),
        stored("root", "name", "root type"),
        stored("number", "place", "from 1, by share"),
        stored("label", "name", "edge or site"),
        stored("site", "name", "site"),
        stored("mean_us", "us", "mean time on the critical path, µs"),
        stored("sd_us", "us", "its standard deviation, µs"),
        stored("critical", "share", "share of requests with it on the critical path"),
        stored("share", "share", "Cov(y, T)/Var(T) in the category; adds up to 1"),
        stored("share_winsorised", "share", "the same with times cut at their 99.5 % quantile"),
        MARKER,
    )
)


def variance_tables(
    population: Population,
    times: AllPathTimes,
    shown: SampleVariance,
    labels: MarkedLabels,
    sites: pa.Table,
    categories: Sequence[VariableCategory],
    looked: Sequence[Looked],
) -> Mapping[str, pa.Table]:
    """Tables by name."""
    parts = []
    for look in looked:
        alone = int(shown.groups.category[look.group])
        key = None if alone == NOWHERE else population.categories[alone].graph.key
        root = shown.groups.roots[shown.groups.root[look.group]]
        parts += [
            {"category": key, "root": root, **row.model_dump(mode="json")}
            for row in edge_rows(population, times, shown, look, labels)
        ]
    return {
        "variance_sites": sites,
        "variance_categories": _categories(categories),
        "variance_parts": pa.Table.from_pylist(parts, schema=_PARTS_SCHEMA),
    }


def _categories(rows: Sequence[VariableCategory]) -> pa.Table:
    found = []
    for rank, row in enumerate(rows, start=1):
        ends = row.c2_interval
        low, high = (None, None) if ends is None else (ends.low, ends.high)
        found.append({"rank": rank, "c2_low": low, "c2_high": high, **row.model_dump(mode="json")})
    return pa.Table.from_pylist(found, schema=_CATEGORIES_SCHEMA)
