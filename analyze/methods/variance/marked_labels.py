"""Markers against the labels that a population has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analyze.methods.variance.markers import LabelRules, Marker
from analyze.population import Population
from analyze.profile.names import edge_name, site_name
from analyze.profile.times import AllPathTimes
from schemas.report.variance import MarkerKind, MarkerRow


@dataclass(frozen=True, slots=True)
class MarkedLabels:
    """The markers of the file, what became of them, and the sites that they are about."""

    rules: LabelRules
    sites: tuple[tuple[MarkerRow, frozenset[int]], ...]
    """In the order of the file."""

    @property
    def rows(self) -> tuple[MarkerRow, ...]:
        """One a marker."""
        return tuple(row for row, _ in self.sites)

    def of_site(self, site: int) -> MarkerKind | None:
        """Kind of the first marker that holds and is about a site, or an edge of it."""
        return next((row.kind for row, mine in self.sites if row.state == "holds" and site in mine), None)


def marked_labels(population: Population, times: AllPathTimes, rules: LabelRules) -> MarkedLabels:
    """Which markers hold, have expired, or mean nothing that is there. O(edges · markers)."""
    if not rules.markers:
        return MarkedLabels(rules, ())
    labels: dict[str, set[int]] = {}
    for category, mine in zip(population.categories, times.categories, strict=True):
        for edge, site in enumerate(mine.site.tolist()):
            labels.setdefault(edge_name(category.graph, edge, site).text, set()).add(site)
    for site in range(len(times.names.sites)):
        labels.setdefault(site_name(site, times.names).text, set()).add(site)
    return MarkedLabels(rules, tuple(_judged(marker, rules, labels) for marker in rules.markers))


def _judged(
    marker: Marker, rules: LabelRules, labels: dict[str, set[int]]
) -> tuple[MarkerRow, frozenset[int]]:
    meant = _union(sites for text, sites in labels.items() if marker.matches(text))
    row = MarkerRow(
        label=marker.label,
        kind=marker.kind,
        owner=marker.owner,
        reason=marker.reason,
        expires=None if marker.expires is None else marker.expires.isoformat(),
        state="expired" if marker.is_expired(rules.day) else "holds" if meant else "unused",
    )
    return row, meant


def _union(parts: Iterable[set[int]]) -> frozenset[int]:
    return frozenset[int]().union(*parts)
