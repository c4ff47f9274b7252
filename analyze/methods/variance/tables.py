"""Fill the complete tables beside a report: sites, categories, parts of those that were looked into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from analyze.methods.variance.markers import MarkedLabels
from analyze.methods.variance.request_groups import NOWHERE
from analyze.methods.variance.rows import MARKER, SPREAD, Looked, edge_rows, field
from analyze.methods.variance.variance_decomposition import SampleVariance
from analyze.population import Population
from analyze.profile.times import AllPathTimes
from schemas.report.variance import VariableCategory

_CATEGORIES_SCHEMA = pa.schema(
    [
        field("rank", pa.int32(), "from 1"),
        field("category", pa.string(), "key after refinement; null: rare ones of a root type", nullable=True),
        field("root", pa.string(), "root type"),
        field("members", pa.int64(), "categories in it"),
        *SPREAD,
        field("c2_residual", pa.float64(), "without marked sources", nullable=True),
        field("impact", pa.float64(), "p·σ²/Var(T): part of the variance, within paths"),
    ]
)
_PARTS_SCHEMA = pa.schema(
    [
        field("category", pa.string(), "key after refinement; null: rare ones of a root type", nullable=True),
        field("root", pa.string(), "root type"),
        field("number", pa.int32(), "from 1, by share"),
        field("label", pa.string(), "edge or site"),
        field("site", pa.string(), "site"),
        field("mean_us", pa.float64(), "mean time on the critical path, µs"),
        field("sd_us", pa.float64(), "its standard deviation, µs"),
        field("critical", pa.float64(), "share of requests with it on the critical path"),
        field("share", pa.float64(), "Cov(y, T)/Var(T) in the category; adds up to 1"),
        field("share_winsorised", pa.float64(), "the same with times cut at their 99.5 % quantile"),
        MARKER,
    ]
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
