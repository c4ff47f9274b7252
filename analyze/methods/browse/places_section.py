"""The section `browse-places`: sites and hosts by time, errors."""

from __future__ import annotations

from typing import Final

import numpy as np

from analyze.methods.browse.error_rows import error_rows
from analyze.methods.browse.host_times import host_times
from analyze.methods.browse.range_section import Ranges, site_c2, site_words
from analyze.methods.browse.timeline_section import entries_of, time_edges
from analyze.population import Population
from analyze.profile.times import AllPathTimes
from schemas.report.browse import BrowsePlacesSection, ErrorRow, HostRow, SiteRow

MOST_SITES: Final = 60
MOST_HOSTS: Final = 60
MOST_ERRORS: Final = 40
MOST_COMPONENTS: Final = 6
TIMES: Final = 48
"""Parts of the period by which errors are counted."""


class Places:
    """All sites, hosts and errors of the last sample, uncut."""

    def __init__(self, population: Population, times: AllPathTimes, ranges: Ranges) -> None:
        sample = ranges.sample
        self.sites: list[SiteRow] = _sites(population, times, ranges)
        self.hosts, self.no_host = _hosts(population, times, sample, ranges)
        edges = time_edges(entries_of(population, sample), population.samples[sample], TIMES)
        self.errors: list[ErrorRow]
        self.errors, self.failed_inside = error_rows(population, times, sample, edges)


def places_section(population: Population, places: Places) -> BrowsePlacesSection:
    """The section."""
    return BrowsePlacesSection(
        sample=population.samples[-1].name,
        sites=tuple(places.sites[:MOST_SITES]),
        sites_total=len(places.sites),
        hosts=tuple(places.hosts[:MOST_HOSTS]),
        hosts_total=len(places.hosts),
        no_host=places.no_host,
        errors=tuple(places.errors[:MOST_ERRORS]),
        errors_total=len(places.errors),
        failed_inside=places.failed_inside,
    )


def _sites(population: Population, times: AllPathTimes, ranges: Ranges) -> list[SiteRow]:
    bins = ranges.bins
    us, weight = bins.site_us.sum(axis=1), bins.site_weight.sum(axis=1)
    total = float(bins.us.sum())
    failed = np.zeros(len(us), dtype=np.int64)
    for category, mine in zip(population.categories, times.categories, strict=True):
        failures = category.failures.of_rows(category.rows(ranges.sample))
        if len(failures.row):
            at = mine.graph.site_at(failures.position)
            both = np.unique(np.stack([at, failures.row.astype(np.int64)]), axis=1)
            failed += np.bincount(both[0], minlength=len(us))
    rows = []
    for site in np.lexsort((np.arange(len(us)), -us)).tolist():
        if not bins.site_n[site]:
            continue
        label, caller = site_words(times, site)
        rows.append(
            SiteRow(
                label=label,
                caller=caller,
                requests=int(bins.site_n[site]),
                mean_us=float(us[site] / weight[site]),
                c2=site_c2(bins, site),
                share_of_time=float(us[site]) / total if total > 0 else 0.0,
                failed=int(failed[site]),
            )
        )
    return rows


def _hosts(
    population: Population, times: AllPathTimes, sample: int, ranges: Ranges
) -> tuple[list[HostRow], float]:
    found = host_times(population, times, sample)
    total, weight = float(found.us.sum()), float(ranges.bins.weight.sum())
    rows = [
        HostRow(
            host=host,
            components=found.components[code][:MOST_COMPONENTS],
            requests=int(found.n[code]),
            share_of_requests=float(found.weight[code]) / weight,
            share_of_time=float(found.us[code]) / total if total > 0 else 0.0,
            per_request_us=float(found.us[code] / found.weight[code]),
            failed=int(found.failed[code]),
        )
        for code, host in enumerate(population.hosts)
        if found.n[code]
    ]
    rows.sort(key=lambda row: (-row.share_of_time, row.host))
    return rows, float(found.us[-1]) / total if total > 0 else 0.0
