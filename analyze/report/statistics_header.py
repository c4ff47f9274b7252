"""The header of a report on samples that are statistics: what sums and bins of response times tell."""

from __future__ import annotations

import numpy as np

from analyze.profile.stored import SampleProfiles
from analyze.stats.histograms import value_of
from schemas.arrays import F8
from schemas.report.report import SampleSummary
from schemas.windows import NS_PER_US

_COLUMNS = ("bin", "n", "w", "ns", "failed", "failed_n")


def statistics_summary(compared: SampleProfiles, sample: int) -> SampleSummary:
    """Counts and response times of one sample; quantiles are read from bins, to about 1 %.

    There is no number of categories: 0. What was left out of tests is not known either.
    """
    named, rows = compared.samples[sample], _rows(compared, sample)
    requests, weight = float(rows["n"].sum()), float(rows["w"].sum())
    mean_us = float(rows["ns"].sum()) / weight / NS_PER_US if weight else None
    return SampleSummary(
        name=named.name,
        text=named.text,
        start_ns=named.start_ns,
        end_ns=named.end_ns,
        where=named.where,
        requests=round(requests),
        weighted_requests=weight,
        mean_us=mean_us,
        median_us=_quantile(rows, 0.5),
        p99_us=_quantile(rows, 0.99),
        total_us=0.0 if mean_us is None else requests * mean_us,
        failed=round(float(rows["failed_n"].sum())),
        failed_share=float(rows["failed"].sum()) / weight if weight else None,
        categories=0,
        excluded={},
    )


def statistics_load_ratio(compared: SampleProfiles) -> float | None:
    """Weighted requests a second, second sample over first, over the windows of a recording."""
    rates = []
    for sample in (0, 1):
        seconds = sum(slot.seconds for slot in compared.profile.slots if slot.sample == sample)
        rates.append(_rows(compared, sample)["w"].sum() / seconds if seconds else 0.0)
    return float(rates[1] / rates[0]) if all(rates) else None


def _rows(compared: SampleProfiles, sample: int) -> dict[str, F8]:
    """Rows of `responses` of one sample."""
    table = compared.profile.responses
    mine = np.array([slot.sample == sample for slot in compared.profile.slots], dtype=np.bool_)
    inside = mine[table["slot"].to_numpy()]
    return {name: table[name].to_numpy()[inside].astype(np.float64) for name in _COLUMNS}


def _quantile(rows: dict[str, F8], q: float) -> float | None:
    """Of response times as recorded, µs; linear inside a bin. None without requests."""
    total = rows["n"].sum()
    if not total:
        return None
    order = np.argsort(rows["bin"], kind="stable")
    n, bins = rows["n"][order], rows["bin"][order]
    gone = np.cumsum(n)
    at = min(int(np.searchsorted(gone, q * total)), len(n) - 1)
    inside = (q * total - (gone[at] - n[at])) / n[at] if n[at] else 0.0
    return float(value_of(bins[at] + min(max(inside, 0.0), 1.0))) / NS_PER_US
