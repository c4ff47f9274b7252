"""Sites that requests wait for, in the report's order: a table, and its first rows as the report's model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyze.methods.variance.markers import MarkedLabels
from analyze.methods.variance.table_fields import MARKER, SPREAD
from analyze.methods.variance.variance_decomposition import (
    WIDEST,
    SampleVariance,
    coefficient,
    deviation,
    log_coefficient,
)
from analyze.profile.names import SiteKind, site_name
from analyze.profile.times import AllPathTimes
from analyze.stats.jackknife import jackknife
from analyze.stats.moments import LARGE
from schemas.arrays import F8, I8
from schemas.report.columns import arrow_schema, stored
from schemas.report.findings import Interval
from schemas.report.variance import VariableSite

SITES_SCHEMA: Final = arrow_schema(
    (
        stored("rank", "place", "from 1"),
        stored("label", "name", "edge between two trace points, or call"),
        stored("caller", "name", "who calls", null=True),
        *SPREAD,
        stored("within", "share", "part of the variance: within paths"),
        stored("within_low", "number", "end of its 95 % interval", null=True),
        stored("within_high", "number", "other end", null=True),
        stored("paths", "share", "between paths of a root type"),
        stored("roots", "share", "between root types"),
        stored("total", "share", "all three; 1 over all sites"),
        stored("residual", "share", "part of what is left without marked sources", null=True),
        MARKER,
    )
)


def site_table(times: AllPathTimes, shown: SampleVariance, labels: MarkedLabels) -> pa.Table:
    """Table of SITES_SCHEMA, a row a site."""
    whole = shown.whole
    sites, order, n = whole.sites, np.asarray(shown.site_order, np.int64), whole.sites.n
    sums = sites.touched.sum(axis=1)
    c2 = coefficient(sums)
    told = (n > LARGE) & np.isfinite(c2)
    low, high = log_coefficient(sites.touched).interval()
    with np.errstate(invalid="ignore", over="ignore"):
        # An interval that is wider says nothing.
        spread = (n > LARGE) & (high - low <= WIDEST)
        low, high = np.exp(low), np.exp(high)
    parts = {
        name: _over(part, whole.split.total)
        for name, part in (
            ("within", sites.within),
            ("paths", sites.paths),
            ("roots", sites.roots),
            ("total", sites.total),
        )
    }
    within_low, within_high = _share_interval(shown)
    known = np.isfinite(within_low) & np.isfinite(within_high) & (whole.split.total > 0)
    # NaN where nothing is known: null.
    columns: dict[str, I8 | F8] = {
        "requests": n,
        "mean_us": np.divide(sums[:, 1], sums[:, 0], out=np.zeros(len(n)), where=sums[:, 0] > 0),
        "sd_us": deviation(sums),
        "c2": np.where(told, c2, np.nan),
        "c2_low": np.where(spread, low, np.nan),
        "c2_high": np.where(spread, high, np.nan),
        "within": parts["within"],
        "within_low": np.where(known, within_low, np.nan),
        "within_high": np.where(known, within_high, np.nan),
        "paths": parts["paths"],
        "roots": parts["roots"],
        "total": parts["total"],
        "residual": _residual(shown),
    }
    listed = order.tolist()
    names = times.names
    calls = [names.caller(s) if names.sites[s].kind == SiteKind.CALL else None for s in listed]
    texts: dict[str, Any] = {
        "rank": np.arange(1, len(listed) + 1, dtype=np.int32),
        "label": [site_name(site, names).text for site in listed],
        "caller": [None if caller is None else caller.text for caller in calls],
        "marker": [labels.of_site(site) for site in listed],
    }
    return pa.table(
        [
            pa.array(texts[f.name], f.type) if f.name in texts else _column(columns[f.name][order], f)
            for f in SITES_SCHEMA
        ],
        schema=SITES_SCHEMA,
    )


def _column(values: I8 | F8, of: pa.Field) -> pa.Array:
    return pa.array(values, of.type, mask=np.isnan(values) if of.nullable else None)


def _over(part: F8, whole: float) -> F8:
    return part / whole if whole > 0 else np.zeros(len(part))


def _share_interval(shown: SampleVariance) -> tuple[F8, F8]:
    """Ends of the 95 % intervals of the parts within paths, over the variance."""
    blocks, total = shown.whole.sites.within_blocks, shown.whole.split.block_total
    both = np.stack([blocks, np.broadcast_to(total, blocks.shape)], axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return jackknife(both, lambda parts: parts[..., 0] / parts[..., 1]).interval()


def _residual(shown: SampleVariance) -> F8:
    """[sites] parts of the variance within paths that is left; NaN without markers that hold."""
    if shown.residual is None:
        return np.full(len(shown.whole.sites.n), np.nan)
    return _over(shown.residual.sites.within, float(shown.residual.split.within.sum()))


def site_rows(table: pa.Table, most: int) -> Iterator[VariableSite]:
    """The first rows of a `site_table`."""
    for row in table.slice(0, most).to_pylist():
        del row["rank"]
        c2, within = (_interval(row.pop(f"{name}_low"), row.pop(f"{name}_high")) for name in ("c2", "within"))
        yield VariableSite(c2_interval=c2, within_interval=within, **row)


def _interval(low: float | None, high: float | None) -> Interval | None:
    return None if low is None or high is None else Interval(low=low, high=high)
