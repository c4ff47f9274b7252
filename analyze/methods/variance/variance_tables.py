"""The complete tables beside a report: sites, categories, parts of the categories that were looked into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from analyze.methods.variance.detail_rows import Looked, edge_rows
from analyze.methods.variance.marked_labels import MarkedLabels
from analyze.methods.variance.request_groups import NOWHERE
from analyze.methods.variance.sample_variance import SampleVariance
from analyze.population import Population
from analyze.sites.critical_times import AllPathTimes
from schemas.report.variance import VariableCategory, VariableSite


def _f(name: str, type_: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={"doc": doc})


_SPREAD = (
    _f("requests", pa.int64(), "recorded requests"),
    _f("mean_us", pa.float64(), "weighted mean, µs"),
    _f("sd_us", pa.float64(), "weighted standard deviation, µs"),
    _f("c2", pa.float64(), "squared coefficient of variation; more than 10 requests only", nullable=True),
    _f("c2_low", pa.float64(), "end of its 95 % interval", nullable=True),
    _f("c2_high", pa.float64(), "other end", nullable=True),
)
_MARKER = _f("marker", pa.string(), "intentional, intrinsic, inadvertent; null without one", nullable=True)

SITES_SCHEMA = pa.schema(
    [
        _f("rank", pa.int32(), "from 1"),
        _f("label", pa.string(), "edge between two trace points, or call"),
        _f("caller", pa.string(), "who calls", nullable=True),
        *_SPREAD,
        _f("within", pa.float64(), "part of the variance: within paths"),
        _f("paths", pa.float64(), "between paths of a root type"),
        _f("roots", pa.float64(), "between root types"),
        _f("total", pa.float64(), "all three; 1 over all sites"),
        _f("residual", pa.float64(), "part of what is left without marked sources", nullable=True),
        _MARKER,
    ]
)
CATEGORIES_SCHEMA = pa.schema(
    [
        _f("rank", pa.int32(), "from 1"),
        _f("category", pa.string(), "key after refinement; null: rare ones of a root type", nullable=True),
        _f("root", pa.string(), "root type"),
        _f("members", pa.int64(), "categories in it"),
        *_SPREAD,
        _f("c2_residual", pa.float64(), "without marked sources", nullable=True),
        _f("impact", pa.float64(), "p·σ²/Var(T): part of the variance, within paths"),
    ]
)
PARTS_SCHEMA = pa.schema(
    [
        _f("category", pa.string(), "key after refinement; null: rare ones of a root type", nullable=True),
        _f("root", pa.string(), "root type"),
        _f("number", pa.int32(), "from 1, by share"),
        _f("label", pa.string(), "edge or site"),
        _f("site", pa.string(), "site"),
        _f("mean_us", pa.float64(), "mean time on the critical path, µs"),
        _f("sd_us", pa.float64(), "its standard deviation, µs"),
        _f("critical", pa.float64(), "share of requests with it on the critical path"),
        _f("share", pa.float64(), "Cov(y, T)/Var(T) in the category; adds up to 1"),
        _f("share_winsorised", pa.float64(), "the same with times cut at their 99.5 % quantile"),
        _MARKER,
    ]
)


def variance_tables(
    population: Population,
    times: AllPathTimes,
    shown: SampleVariance,
    labels: MarkedLabels,
    sites: Sequence[VariableSite],
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
        "variance_sites": _table(SITES_SCHEMA, sites),
        "variance_categories": _table(CATEGORIES_SCHEMA, categories),
        "variance_parts": pa.Table.from_pylist(parts, schema=PARTS_SCHEMA),
    }


def _table(schema: pa.Schema, rows: Sequence[VariableSite | VariableCategory]) -> pa.Table:
    found = []
    for rank, row in enumerate(rows, start=1):
        ends = row.c2_interval
        low, high = (None, None) if ends is None else (ends.low, ends.high)
        found.append({"rank": rank, "c2_low": low, "c2_high": high, **row.model_dump(mode="json")})
    return pa.Table.from_pylist(found, schema=schema)
